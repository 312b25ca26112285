// The tile unit that a file is compiled for (tiles.h). The build names it as it names the vectors
// (simd-inl.h).
#pragma once

#if defined(QUIRE_TILES_AMX)
#include "kernels/cpu/simd/tiles_amx.h"
#elif defined(QUIRE_TILES_EMULATED)
#include "kernels/cpu/simd/tiles_emulated.h"
#else
#error \
    "no QUIRE_TILES_… is defined: src/kernels/CMakeLists.txt gives one to sources of tile kernels"
#endif
