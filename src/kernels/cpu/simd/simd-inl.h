// The vectors of the instruction set that a file is compiled for. simd_portable.h says what the
// names mean. A file has one set, which the build names beside the compiler's flags
// (src/kernels/CMakeLists.txt). So a header that includes this is compiled once per set, and
// defines everything in an anonymous namespace.
#pragma once

#if defined(QUIRE_VECTORS_AVX512)
#include "kernels/cpu/simd/simd_avx512.h"
#elif defined(QUIRE_VECTORS_AVX2)
#include "kernels/cpu/simd/simd_avx2.h"
#elif defined(QUIRE_VECTORS_PORTABLE)
#include "kernels/cpu/simd/simd_portable.h"
#else
#error \
    "no QUIRE_VECTORS_… is defined: src/kernels/CMakeLists.txt gives one to each source of kernels"
#endif
