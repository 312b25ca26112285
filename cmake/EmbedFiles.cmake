# quire_embed_files(OUTPUT out.cc ROOT dir FILES a b … )
#
# At build time writes out.cc, which defines quire::server::static_files() (src/server/http/static_files.h) over the bytes of
# FILES, named by their paths below ROOT. Run as a script (cmake -P) it is the generator itself.

if(CMAKE_SCRIPT_MODE_FILE)
  set(definitions "")
  set(rows "")
  set(index 0)
  string(REPLACE "|" ";" FILES "${FILES}")
  foreach(file IN LISTS FILES)
    file(READ "${ROOT}/${file}" hex HEX)
    string(LENGTH "${hex}" length)
    math(EXPR size "${length} / 2")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(REGEX REPLACE "(................................................................................)"
                         "\\1\n" bytes "${bytes}")
    string(APPEND definitions "const unsigned char kData${index}[] = {${bytes}0};\n")
    string(APPEND rows
           "    {\"${file}\", {reinterpret_cast<const char*>(kData${index}), ${size}}},\n")
    math(EXPR index "${index} + 1")
  endforeach()
  file(WRITE "${OUTPUT}" "// Written by cmake/EmbedFiles.cmake from ${ROOT}.
#include \"server/http/static_files.h\"

#include <array>

namespace quire::server {
namespace {
${definitions}
const std::array<StaticFile, ${index}> kFiles = {{
${rows}}};
}  // namespace

std::span<const StaticFile> static_files() { return kFiles; }

}  // namespace quire::server
")
  return()
endif()

set(QUIRE_EMBED_SCRIPT "${CMAKE_CURRENT_LIST_FILE}")
function(quire_embed_files)
  cmake_parse_arguments(ARG "" "OUTPUT;ROOT" "FILES" ${ARGN})
  list(TRANSFORM ARG_FILES PREPEND "${ARG_ROOT}/" OUTPUT_VARIABLE paths)
  string(REPLACE ";" "|" list "${ARG_FILES}")  # a plain ; would be taken apart on the way
  add_custom_command(
    OUTPUT "${ARG_OUTPUT}"
    COMMAND ${CMAKE_COMMAND} "-DOUTPUT=${ARG_OUTPUT}" "-DROOT=${ARG_ROOT}" "-DFILES=${list}" -P
            "${QUIRE_EMBED_SCRIPT}"
    DEPENDS ${paths} "${QUIRE_EMBED_SCRIPT}"
    COMMENT "Embedding ${ARG_ROOT}"
    VERBATIM)
endfunction()
