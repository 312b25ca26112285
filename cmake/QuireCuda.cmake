# QUIRE_CUDA=AUTO|ON|OFF decides whether CUDA kernels are built. AUTO builds them if an nvcc of 12.8 or later is found.
#
# nvcc itself compiles kernels, file by file. They are linked as plain objects with the static CUDA runtime, so that the program
# starts on machines without a driver. Sets QUIRE_HAS_CUDA, and quire::cuda_toolkit (headers and runtime).
#
#   quire_cuda_sources(target a.cu b.cu c_sm90a.cu)
#
# Files named *_sm90a.cu are compiled only for sm_90a.

set(QUIRE_CUDA AUTO CACHE STRING "Build CUDA kernels: AUTO (when nvcc >= 12.8 is there), ON or OFF")
set_property(CACHE QUIRE_CUDA PROPERTY STRINGS AUTO ON OFF)
set(QUIRE_CUDA_TARGETS
    -gencode=arch=compute_80,code=[sm_80,compute_80]
    -gencode=arch=compute_90a,code=sm_90a
    CACHE STRING "Target flags for nvcc: sm_80 and, by its code for later GPUs, others; sm_90a for Hopper")
set(QUIRE_HAS_CUDA OFF)

function(quire_find_cuda)
  find_program(QUIRE_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
  if(NOT QUIRE_NVCC)
    set(problem "no nvcc found")
  else()
    execute_process(COMMAND "${QUIRE_NVCC}" --version OUTPUT_VARIABLE version ERROR_QUIET)
    string(REGEX MATCH "release ([0-9]+\\.[0-9]+)" _ "${version}")
    get_filename_component(bin "${QUIRE_NVCC}" REALPATH)
    get_filename_component(bin "${bin}" DIRECTORY)
    get_filename_component(root "${bin}" DIRECTORY)
    find_library(QUIRE_CUDART cudart_static HINTS "${root}/lib64" "${root}/lib" "${root}/targets/x86_64-linux/lib")
    if(CMAKE_MATCH_1 VERSION_LESS 12.8)
      set(problem "${QUIRE_NVCC} is of CUDA ${CMAKE_MATCH_1}, 12.8 is needed")
    elseif(NOT QUIRE_CUDART OR NOT EXISTS "${root}/include/cublasLt.h")
      set(problem "${root} has no libcudart_static or no cublasLt.h")
    endif()
  endif()
  if(problem)
    if(QUIRE_CUDA STREQUAL ON)
      message(FATAL_ERROR "QUIRE_CUDA=ON, but ${problem}")
    endif()
    message(STATUS "CUDA: OFF, no GPU kernels in this build: ${problem}")
    return()
  endif()
  message(STATUS "CUDA: ON, ${QUIRE_NVCC} ${CMAKE_MATCH_1}")
  set(QUIRE_HAS_CUDA ON PARENT_SCOPE)
  add_library(quire_cuda_toolkit INTERFACE)
  add_library(quire::cuda_toolkit ALIAS quire_cuda_toolkit)
  target_include_directories(quire_cuda_toolkit SYSTEM INTERFACE "${root}/include")
  target_link_libraries(quire_cuda_toolkit INTERFACE "${QUIRE_CUDART}" Threads::Threads ${CMAKE_DL_LIBS} rt)
endfunction()

if(NOT QUIRE_CUDA STREQUAL OFF)
  quire_find_cuda()
endif()

# Adds objects made by nvcc to a target of this folder. tools/nvcc.py fails if kernels spill more registers than
# tools/spill_budget.txt allows.
function(quire_cuda_sources target)
  foreach(source IN LISTS ARGN)
    get_filename_component(name "${source}" NAME_WE)
    set(object "${CMAKE_CURRENT_BINARY_DIR}/${name}.cu.o")
    set(targets ${QUIRE_CUDA_TARGETS})
    if(name MATCHES "_sm90a$")
      set(targets -gencode=arch=compute_90a,code=sm_90a)
    endif()
    add_custom_command(
      OUTPUT "${object}"
      COMMAND ${Python3_EXECUTABLE} "${PROJECT_SOURCE_DIR}/tools/nvcc.py" --budget
              "${PROJECT_SOURCE_DIR}/tools/spill_budget.txt" -- ${CMAKE_CXX_COMPILER_LAUNCHER} "${QUIRE_NVCC}"
              -std=c++20 -O3 ${targets} --expt-relaxed-constexpr -DFMT_USE_CONSTEXPR=1
              # fmt is built as a shared library; its [[nodiscard]] results that are moved from are not ignored
              -DFMT_SHARED -diag-suppress 2810 -Werror all-warnings -Xcompiler=-Wall,-Wextra,-fPIC,-Wno-missing-field-initializers
              -Xptxas=-v "-I${PROJECT_SOURCE_DIR}/src" "-I${PROJECT_SOURCE_DIR}/include" -MD -MF "${object}.d" -MT
              "${object}" -c "${CMAKE_CURRENT_SOURCE_DIR}/${source}" -o "${object}"
      DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${source}" "${PROJECT_SOURCE_DIR}/tools/nvcc.py"
              "${PROJECT_SOURCE_DIR}/tools/spill_budget.txt"
      DEPFILE "${object}.d"
      COMMENT "Building CUDA object ${source}"
      VERBATIM)
    target_sources(${target} PRIVATE "${object}")
    set_source_files_properties("${object}" TARGET_DIRECTORY ${target} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
    list(APPEND objects "${object}")
  endforeach()
  # The target may be in another directory, whose build files would have no rule to make the objects.
  add_custom_target(${target}_cuda_objects DEPENDS ${objects})
  add_dependencies(${target} ${target}_cuda_objects)
endfunction()
