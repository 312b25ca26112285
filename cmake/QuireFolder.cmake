# quire_folder(NAME SOURCES a.cc ... [LINK lib ...] [PRIVATE_LINK lib ...] [TESTS a_test.cc ...] [TEST_LINK lib ...])
#
# Declares src/NAME as one static library quire::NAME. Its dependencies on other folders are not written here: they are its row
# of tools/layers.txt, so that the build and the layer check cannot disagree. A row may name folders that do not exist; those
# are skipped. TESTS become one GoogleTest binary, quire_NAME_test, whose cases CTest discovers.

file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/../tools/layers.txt" QUIRE_LAYER_ROWS REGEX "^[a-z]+:")

function(quire_layer_deps folder out)
  foreach(row IN LISTS QUIRE_LAYER_ROWS)
    if(row MATCHES "^${folder}: *(.*)$")
      string(REGEX REPLACE " +" ";" deps "${CMAKE_MATCH_1}")
      set(${out} "${deps}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "src/${folder} has no row in tools/layers.txt")
endfunction()

# quire_unity(TARGET SOURCE...): with QUIRE_UNITY the compiler compiles several sources of the target at once. Most of the time
# for one file is spent on reading headers that it shares with its neighbours.
function(quire_unity target)
  if(NOT QUIRE_UNITY)
    return()
  endif()
  set(sources ${ARGN})
  list(FILTER sources INCLUDE REGEX "^[^/].*\\.cc$")  # those of the tree, not what the build makes
  execute_process(COMMAND "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tools/unity_groups.py" ${sources}
                  WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" OUTPUT_VARIABLE rows COMMAND_ERROR_IS_FATAL ANY)
  string(STRIP "${rows}" rows)
  string(REPLACE "\n" ";" rows "${rows}")
  foreach(row IN LISTS rows)
    string(REGEX MATCH "^([0-9]+) (.*)$" row "${row}")
    set_source_files_properties("${CMAKE_MATCH_2}" PROPERTIES UNITY_GROUP "${target}_${CMAKE_MATCH_1}")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # A class that a source defines for its own use may have members of a type in its unnamed namespace. In a group GCC treats
    # the sources like headers, where it warns of such members.
    set_target_properties(${target} PROPERTIES UNITY_BUILD_CODE_BEFORE_INCLUDE
                          "#pragma GCC diagnostic ignored \"-Wsubobject-linkage\"")
  endif()
endfunction()

# quire_light(TARGET...): for code that runs when something is read, loaded or printed, and not for each token. With -O1 it
# compiles in two thirds of the time (docs/decisions/160-light-code.md).
function(quire_light)
  foreach(target IN LISTS ARGN)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endforeach()
endfunction()

function(quire_folder name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;PRIVATE_LINK;TESTS;TEST_LINK" ${ARGN})
  add_library(quire_${name} STATIC ${ARG_SOURCES})
  add_library(quire::${name} ALIAS quire_${name})
  quire_unity(quire_${name} ${ARG_SOURCES})
  target_link_libraries(quire_${name} PUBLIC Threads::Threads ${ARG_LINK} PRIVATE ${ARG_PRIVATE_LINK})
  quire_layer_deps(${name} deps)
  foreach(dep IN LISTS deps)
    if(dep IN_LIST QUIRE_FOLDERS)
      target_link_libraries(quire_${name} PUBLIC quire::${dep})
    endif()
  endforeach()
  if(ARG_TESTS AND QUIRE_BUILD_TESTS)
    quire_test(quire_${name}_test SOURCES ${ARG_TESTS} LINK quire::${name} ${ARG_TEST_LINK})
  endif()
endfunction()

# Sets how test code is compiled. LINK names the libraries that it uses besides those of all tests.
function(quire_test_code target)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  quire_unity(${target} ${ARG_SOURCES})
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}")
  quire_light(${target})  # tests spend their time in the libraries that they test
  target_link_libraries(${target} PRIVATE ${ARG_LINK} quire_test_support GTest::gtest GTest::gmock)
endfunction()

# quire_test(NAME SOURCES ... LINK ...): a GoogleTest binary whose cases CTest runs one by one. Does nothing if tests are off.
function(quire_test name)
  if(NOT QUIRE_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINK" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  quire_test_code(${name} SOURCES ${ARG_SOURCES} LINK ${ARG_LINK})
  target_link_libraries(${name} PRIVATE GTest::gtest_main)
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)  # where all sources are objects
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST NO_PRETTY_VALUES PROPERTIES TIMEOUT ${ARG_TIMEOUT}
                       SKIP_REGULAR_EXPRESSION "SKIPPED:")
endfunction()

# quire_device_test(NAME SOURCES ... LINK ...): tests that get a device from kernels/cuda/test/test_device.h, as two programs:
# NAME_test runs a GPU's kernels compiled for the CPU, if those are built, and NAME_cuda_test runs on a GPU. The sources are
# compiled once.
function(quire_device_test name)
  if(NOT QUIRE_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name}_cases OBJECT ${ARG_SOURCES})
  quire_test_code(${name}_cases SOURCES ${ARG_SOURCES} LINK ${ARG_LINK})
  if(TARGET quire_cuda_emulation)
    quire_test(${name}_test SOURCES $<TARGET_OBJECTS:${name}_cases> LINK quire_cuda_emulation quire_emulated_test_device ${ARG_LINK})
  endif()
  quire_test(${name}_cuda_test SOURCES $<TARGET_OBJECTS:${name}_cases> LINK quire_cuda_test_device ${ARG_LINK})
endfunction()
