# braid_embed(target file...): the text of each file becomes part of the target, as
# `extern const std::string_view braid::embedded::NAME`, NAME being the file's with `_` for `.`; when the file
# changes, it is made again. The same file is also the script that does it.
if(CMAKE_SCRIPT_MODE_FILE)
  get_filename_component(name ${INPUT} NAME)
  string(MAKE_C_IDENTIFIER ${name} name)
  file(READ ${INPUT} bytes HEX)
  # As single characters: compilers limit the length of a string literal.
  string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${bytes}")
  string(REPLACE "'\\x0a'," "'\\x0a',\n" bytes "${bytes}")  # a line for each line
  file(WRITE ${OUTPUT} "#include <string_view>

namespace braid::embedded {
extern const std::string_view ${name};
static constexpr char ${name}_text[] = {
${bytes}'\\0'};
constinit const std::string_view ${name}{${name}_text, sizeof ${name}_text - 1};
}
")
  return()
endif()

set(BRAID_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
function(braid_embed target)
  foreach(file IN LISTS ARGN)
    get_filename_component(input ${file} ABSOLUTE)
    get_filename_component(name ${file} NAME)
    set(output ${CMAKE_CURRENT_BINARY_DIR}/embedded/${name}.cpp)
    add_custom_command(OUTPUT ${output}
      COMMAND ${CMAKE_COMMAND} -DINPUT=${input} -DOUTPUT=${output} -P ${BRAID_EMBED_SCRIPT}
      DEPENDS ${input} ${BRAID_EMBED_SCRIPT} COMMENT "Embedding ${name}" VERBATIM)
    set_source_files_properties(${output} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)  # made by the build
    target_sources(${target} PRIVATE ${output})
  endforeach()
endfunction()
