// Tiles in software, bit for bit what the instructions are documented to compute (Intel SDM, volume
// 2: TDPBF16PS, TDPBSSD) and what the hardware computes (linear_test.cc), so that the kernels
// written over tiles can be proven on any CPU. It stops the program where the hardware would raise
// an exception: shapes that do not fit each other, registers that were not given a shape. Payloads
// of NaNs are not modelled.
#pragma once

#include "kernels/cpu/simd/tiles.h"

namespace quire {
namespace {

constexpr int kTileColumns = cpu::kTileBytes / 4;

// Subnormals are zero on the way in and out, keeping the sign.
inline float flush_subnormal(float x) {
  return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0.0f, x) : x;
}

// sums[m][n] = fma(a[m], b[n], sums[m][n]) for k ascending: even and odd elements of pairs apart.
struct TilePairs {
  int num_rows;
  int num_pairs;                               // of k
  float a[2][cpu::kTileRows][cpu::kTileRows];  // [odd][k][m]
  float b[2][cpu::kTileRows][kTileColumns];    // [odd][k][n]
  float sums[2][cpu::kTileRows][kTileColumns];
};
inline __attribute__((always_inline)) void add_tile_pairs(TilePairs& t) {
  for (int odd = 0; odd < 2; ++odd) {
    for (int m = 0; m < t.num_rows; ++m) {
      for (int k = 0; k < t.num_pairs; ++k) {
        const float a = t.a[odd][k][m];
        for (int n = 0; n < kTileColumns; ++n) {
          t.sums[odd][m][n] = flush_subnormal(__builtin_fmaf(a, t.b[odd][k][n], t.sums[odd][m][n]));
        }
      }
    }
  }
}
#ifdef __x86_64__
// Without the instruction every multiply-add is a call.
__attribute__((target("avx2,fma"))) inline void add_tile_pairs_with_fma(TilePairs& t) {
  add_tile_pairs(t);
}
#endif

class Tiles {
 public:
  explicit Tiles(const cpu::TileShapes& shapes) { reshape(shapes); }

  void reshape(const cpu::TileShapes& shapes) {
    require(shapes.palette == 1 && shapes.start_row == 0);
    for (int t = 0; t < 16; ++t) {
      require(shapes.rows[t] <= cpu::kTileRows && shapes.row_bytes[t] <= cpu::kTileBytes);
      require((shapes.rows[t] == 0) == (shapes.row_bytes[t] == 0));
      require(t < kRegisters || shapes.rows[t] == 0);
    }
    shapes_ = shapes;
    for (int t = 0; t < kRegisters; ++t) clear(t);
  }

  template <int T>
  void zero() {
    require(shapes_.rows[T] > 0);
    clear(T);
  }
  template <int T>
  void load(const void* p, int64_t stride) {
    zero<T>();
    for (int r = 0; r < shapes_.rows[T]; ++r) {
      __builtin_memcpy(data_[T][r], static_cast<const uint8_t*>(p) + r * stride,
                       shapes_.row_bytes[T]);
    }
  }
  template <int T>
  void store(void* p, int64_t stride) const {
    require(shapes_.rows[T] > 0);
    for (int r = 0; r < shapes_.rows[T]; ++r) {
      __builtin_memcpy(static_cast<uint8_t*>(p) + r * stride, data_[T][r], shapes_.row_bytes[T]);
    }
  }

  // Even and odd elements of the pairs are summed apart with fused multiply-adds, k ascending from
  // zero; then their sum is added to C.
  template <int C, int A, int B>
  void dot_bf16() {
    require_product(C, A, B);
    TilePairs t{
        .num_rows = shapes_.rows[C], .num_pairs = shapes_.rows[B], .a = {}, .b = {}, .sums = {}};
    for (int odd = 0; odd < 2; ++odd) {
      for (int k = 0; k < t.num_pairs; ++k) {
        for (int m = 0; m < t.num_rows; ++m) t.a[odd][k][m] = bf16(A, m, 2 * k + odd);
        for (int n = 0; n < kTileColumns; ++n) t.b[odd][k][n] = bf16(B, k, 2 * n + odd);
      }
    }
#ifdef __x86_64__
    static const bool has_fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    has_fma ? add_tile_pairs_with_fma(t) : add_tile_pairs(t);
#else
    add_tile_pairs(t);
#endif
    for (int m = 0; m < t.num_rows; ++m) {
      float c[kTileColumns];
      __builtin_memcpy(c, data_[C][m], sizeof c);
      for (int n = 0; n < kTileColumns; ++n) {
        c[n] = flush_subnormal(flush_subnormal(c[n]) +
                               flush_subnormal(t.sums[0][m][n] + t.sums[1][m][n]));
      }
      __builtin_memcpy(data_[C][m], c, shapes_.row_bytes[C]);
    }
  }

  template <int C, int A, int B>
  void dot_s8() {
    require_product(C, A, B);
    for (int m = 0; m < shapes_.rows[C]; ++m) {
      for (int n = 0; n < shapes_.row_bytes[C] / 4; ++n) {
        uint32_t c;  // wraps like the hardware's adder
        __builtin_memcpy(&c, data_[C][m] + 4 * n, 4);
        for (int k = 0; k < 4 * shapes_.rows[B]; ++k) {
          const int a = static_cast<int8_t>(data_[A][m][k]);
          const int b = static_cast<int8_t>(data_[B][k / 4][4 * n + k % 4]);
          c += static_cast<uint32_t>(a * b);
        }
        __builtin_memcpy(data_[C][m] + 4 * n, &c, 4);
      }
    }
  }

 private:
  static constexpr int kRegisters = 8;

  static void require(bool holds) {
    if (!holds) __builtin_trap();
  }
  void require_product(int c, int a, int b) const {
    require(c != a && c != b && a != b);
    require(shapes_.rows[a] > 0 && shapes_.rows[b] > 0 && shapes_.rows[c] == shapes_.rows[a]);
    require(shapes_.row_bytes[a] == 4 * shapes_.rows[b]);
    require(shapes_.row_bytes[c] == shapes_.row_bytes[b] && shapes_.row_bytes[c] % 4 == 0);
  }
  void clear(int tile) { __builtin_memset(data_[tile], 0, sizeof data_[tile]); }

  float bf16(int tile, int row, int element) const {
    uint16_t half;
    __builtin_memcpy(&half, data_[tile][row] + 2 * element, 2);
    const uint32_t word = static_cast<uint32_t>(half) << 16;
    float x;
    __builtin_memcpy(&x, &word, 4);
    return flush_subnormal(x);
  }

  cpu::TileShapes shapes_;
  uint8_t data_[kRegisters][cpu::kTileRows][cpu::kTileBytes];
};

}  // namespace
}  // namespace quire
