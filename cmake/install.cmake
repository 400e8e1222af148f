# find_package(braid) and pkg-config.
include(CMakePackageConfigHelpers)

install(TARGETS braid EXPORT braid-targets)
install(EXPORT braid-targets NAMESPACE braid:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/braid)
install(DIRECTORY include/braid DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} PATTERN "cu*.hpp" EXCLUDE
        PATTERN "opencl.hpp" EXCLUDE)
if(BRAID_HAS_CUDA)
  install(FILES include/braid/cuda.hpp include/braid/cublas.hpp include/braid/cusolver.hpp
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/braid)
endif()
if(BRAID_HAS_OPENCL)
  install(FILES include/braid/opencl.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/braid)
endif()
if(BRAID_BUILD_TOOLS)
  install(TARGETS braid_command)
endif()
configure_package_config_file(cmake/braid-config.cmake.in ${PROJECT_BINARY_DIR}/braid-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/braid)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/braid-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/braid-config.cmake ${PROJECT_BINARY_DIR}/braid-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/braid)
configure_file(cmake/braid.pc.in ${PROJECT_BINARY_DIR}/braid.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/braid.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
