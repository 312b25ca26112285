# quire_public_headers(OUTPUT dir HEADERS base/result.h …)
#
# include/quire shows a few types of src/ to the programs that use it. Writes those headers, and include/quire itself,
# The headers are written below OUTPUT/quire with their includes renamed ("base/result.h" to "quire/base/result.h"), so that a
# program with OUTPUT on its include path sees quire/ and nothing else.
function(quire_public_headers)
  cmake_parse_arguments(ARG "" "OUTPUT" "HEADERS" ${ARGN})
  file(GLOB interface_headers RELATIVE "${PROJECT_SOURCE_DIR}/include/quire" CONFIGURE_DEPENDS
       "${PROJECT_SOURCE_DIR}/include/quire/*.h")
  list(TRANSFORM interface_headers PREPEND "include/quire/" OUTPUT_VARIABLE sources)
  list(TRANSFORM ARG_HEADERS PREPEND "src/" OUTPUT_VARIABLE shown)
  foreach(source IN LISTS sources shown)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${source}")
    file(READ "${PROJECT_SOURCE_DIR}/${source}" text)
    foreach(header IN LISTS ARG_HEADERS)
      string(REPLACE "#include \"${header}\"" "#include \"quire/${header}\"" text "${text}")
    endforeach()
    string(REGEX REPLACE "^(include/quire|src)/" "" name "${source}")
    file(CONFIGURE OUTPUT "${ARG_OUTPUT}/quire/${name}" CONTENT "@text@" @ONLY)
  endforeach()
endfunction()
