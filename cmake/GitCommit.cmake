cmake_minimum_required(VERSION 3.25)
# The build runs this script. It writes OUTPUT, a header with kCommit, the commit of SOURCE_DIR ("unknown" outside of a
# checkout, with "-dirty" appended if files have changed). The file is written only if the commit changes.
execute_process(COMMAND git describe --always --dirty --exclude "*" --abbrev=12 WORKING_DIRECTORY "${SOURCE_DIR}"
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" @ONLY CONTENT
     "#pragma once\n\nnamespace quire {\ninline constexpr const char* kCommit = \"@commit@\";\n}  // namespace quire\n")
