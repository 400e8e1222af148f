# OpenBLAS and LAPACKE, where both are found, as one target.
pkg_check_modules(braid_openblas QUIET IMPORTED_TARGET openblas)
find_path(BRAID_LAPACKE_INCLUDE_DIR lapacke.h)
find_library(BRAID_LAPACKE_LIBRARY lapacke)
if(braid_openblas_FOUND AND BRAID_LAPACKE_INCLUDE_DIR AND BRAID_LAPACKE_LIBRARY)
  add_library(braid_openblas_and_lapacke INTERFACE)
  target_include_directories(braid_openblas_and_lapacke SYSTEM INTERFACE ${BRAID_LAPACKE_INCLUDE_DIR})
  # In this order: LAPACK's functions are OpenBLAS's own.
  target_link_libraries(braid_openblas_and_lapacke INTERFACE PkgConfig::braid_openblas ${BRAID_LAPACKE_LIBRARY})
else()
  message(STATUS "Without OpenBLAS and LAPACKE (libopenblas-dev, liblapacke-dev): `braid run cholesky` is slower, and the "
                 "example 06_cholesky is left out")
endif()
