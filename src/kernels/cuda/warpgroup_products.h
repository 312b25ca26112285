// Warpgroup products of several widths, for hopper.h: d [64, N] (+)= a [64, K] b [K, N], with a and
// b in shared memory, where K is 32 bytes: 16 bf16, 32 e4m3 or 32 int8. The instruction names every
// register of d, four for each tile of eight columns, so each width takes some lines of macros.
#pragma once

#include <cstdint>

#include "kernels/cuda/ptx.h"

namespace quire::cuda::ptx {

// The operand names of the sums of so many columns.
#define QUIRE_SUMS_8 "%0, %1, %2, %3"
#define QUIRE_SUMS_16 QUIRE_SUMS_8 ", %4, %5, %6, %7"
#define QUIRE_SUMS_32 QUIRE_SUMS_16 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define QUIRE_SUMS_48 QUIRE_SUMS_32 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define QUIRE_SUMS_64 QUIRE_SUMS_48 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define QUIRE_SUMS_96 \
  QUIRE_SUMS_64       \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define QUIRE_SUMS_112 QUIRE_SUMS_96 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define QUIRE_SUMS_128 QUIRE_SUMS_112 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define QUIRE_SUMS_144 QUIRE_SUMS_128 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define QUIRE_SUMS_192                                                                    \
  QUIRE_SUMS_144                                                                          \
  ", %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88" \
  ", %89, %90, %91, %92, %93, %94, %95"
#define QUIRE_SUMS_224                                                                     \
  QUIRE_SUMS_192                                                                           \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110" \
  ", %111"
#define QUIRE_SUMS_256                                                                   \
  QUIRE_SUMS_224                                                                         \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125" \
  ", %126, %127"

// The tiles of d from number i on that cover so many columns. C is the constraint of a sum's
// register.
#define QUIRE_TILES_8(C, d, i) C(d[i][0]), C(d[i][1]), C(d[i][2]), C(d[i][3])
#define QUIRE_TILES_16(C, d, i) QUIRE_TILES_8(C, d, i), QUIRE_TILES_8(C, d, i + 1)
#define QUIRE_TILES_32(C, d, i) QUIRE_TILES_16(C, d, i), QUIRE_TILES_16(C, d, i + 2)
#define QUIRE_TILES_64(C, d, i) QUIRE_TILES_32(C, d, i), QUIRE_TILES_32(C, d, i + 4)
#define QUIRE_TILES_128(C, d, i) QUIRE_TILES_64(C, d, i), QUIRE_TILES_64(C, d, i + 8)
// All the tiles of a d with so many columns.
#define QUIRE_ALL_8(C) QUIRE_TILES_8(C, d, 0)
#define QUIRE_ALL_16(C) QUIRE_TILES_16(C, d, 0)
#define QUIRE_ALL_32(C) QUIRE_TILES_32(C, d, 0)
#define QUIRE_ALL_48(C) QUIRE_TILES_32(C, d, 0), QUIRE_TILES_16(C, d, 4)
#define QUIRE_ALL_64(C) QUIRE_TILES_64(C, d, 0)
#define QUIRE_ALL_96(C) QUIRE_TILES_64(C, d, 0), QUIRE_TILES_32(C, d, 8)
#define QUIRE_ALL_112(C) QUIRE_ALL_96(C), QUIRE_TILES_16(C, d, 12)
#define QUIRE_ALL_128(C) QUIRE_TILES_128(C, d, 0)
#define QUIRE_ALL_144(C) QUIRE_TILES_128(C, d, 0), QUIRE_TILES_16(C, d, 16)
#define QUIRE_ALL_192(C) QUIRE_TILES_128(C, d, 0), QUIRE_TILES_64(C, d, 16)
#define QUIRE_ALL_224(C) QUIRE_ALL_192(C), QUIRE_TILES_32(C, d, 24)
#define QUIRE_ALL_256(C) QUIRE_TILES_128(C, d, 0), QUIRE_TILES_128(C, d, 16)

// Defines a product of one width. `shape` and `factors` are the instruction's text after the width
// and after `adds`; a_number, b_number and adds_number name the operands that follow the sums.
#define QUIRE_PRODUCT(name, Sum, C, shape, factors, columns, a_number, b_number, adds_number)   \
  QUIRE_DEVICE void name(Sum(&d)[columns / 8][4], uint64_t a, uint64_t b, bool adds) {          \
    asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, " adds_number                          \
                 ", 0;\nwgmma.mma_async.sync.aligned.m64n" #columns shape                       \
                 " {" QUIRE_SUMS_##columns "}, " a_number ", " b_number ", adds" factors ";\n}" \
                 : QUIRE_ALL_##columns(C)                                                       \
                 : "l"(a), "l"(b), "r"(static_cast<int>(adds)));                                \
  }
#define QUIRE_MULTIPLY_PANELS(columns, ...)                                                 \
  QUIRE_PRODUCT(multiply_panels, float, "+f", "k16.f32.bf16.bf16", ", 1, 1, 0, 0", columns, \
                __VA_ARGS__)                                                                \
  QUIRE_PRODUCT(multiply_e4m3_panels, float, "+f", "k32.f32.e4m3.e4m3", ", 1, 1", columns,  \
                __VA_ARGS__)                                                                \
  QUIRE_PRODUCT(multiply_int8_panels, int32_t, "+r", "k32.s32.s8.s8", "", columns, __VA_ARGS__)
// `a` is the panel_descriptor() of 64 rows of k, `b` that of as many rows n of k as d has columns.
// `adds` is false if d is to become a b alone.
QUIRE_MULTIPLY_PANELS(8, "%4", "%5", "%6")
QUIRE_MULTIPLY_PANELS(16, "%8", "%9", "%10")
QUIRE_MULTIPLY_PANELS(32, "%16", "%17", "%18")
QUIRE_MULTIPLY_PANELS(48, "%24", "%25", "%26")
QUIRE_MULTIPLY_PANELS(64, "%32", "%33", "%34")
QUIRE_MULTIPLY_PANELS(96, "%48", "%49", "%50")
QUIRE_MULTIPLY_PANELS(112, "%56", "%57", "%58")
QUIRE_MULTIPLY_PANELS(128, "%64", "%65", "%66")
QUIRE_MULTIPLY_PANELS(144, "%72", "%73", "%74")
QUIRE_MULTIPLY_PANELS(192, "%96", "%97", "%98")
QUIRE_MULTIPLY_PANELS(224, "%112", "%113", "%114")
QUIRE_MULTIPLY_PANELS(256, "%128", "%129", "%130")
#undef QUIRE_MULTIPLY_PANELS
#undef QUIRE_PRODUCT
#undef QUIRE_ALL_256
#undef QUIRE_ALL_224
#undef QUIRE_ALL_192
#undef QUIRE_ALL_144
#undef QUIRE_ALL_128
#undef QUIRE_ALL_112
#undef QUIRE_ALL_96
#undef QUIRE_ALL_64
#undef QUIRE_ALL_48
#undef QUIRE_ALL_32
#undef QUIRE_ALL_16
#undef QUIRE_ALL_8
#undef QUIRE_TILES_128
#undef QUIRE_TILES_64
#undef QUIRE_TILES_32
#undef QUIRE_TILES_16
#undef QUIRE_TILES_8
#undef QUIRE_SUMS_256
#undef QUIRE_SUMS_224
#undef QUIRE_SUMS_192
#undef QUIRE_SUMS_144
#undef QUIRE_SUMS_128
#undef QUIRE_SUMS_112
#undef QUIRE_SUMS_96
#undef QUIRE_SUMS_64
#undef QUIRE_SUMS_48
#undef QUIRE_SUMS_32
#undef QUIRE_SUMS_16
#undef QUIRE_SUMS_8

}  // namespace quire::cuda::ptx
