// Tiles in software, with which kernels over tiles can be tested on any CPU. The bits are those
// that the documentation of the instructions defines (Intel SDM, volume 2: TDPBF16PS, TDPBSSD) and
// that the hardware computes (linear_test.cc). The program stops where the hardware would raise an
// exception: for shapes that do not fit each other, and registers without a shape. Payloads of NaNs
// are not modelled.
#pragma once

#include "kernels/cpu/simd/tiles.h"

namespace quire {
namespace {

constexpr int kTileColumns = cpu::kTileBytes / 4;

// The unit reads and writes subnormals as zeros of the same sign.
inline float flush_subnormal(float x) {
  return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0.0f, x) : x;
}

// Computes sums[m][n] = fma(a[m], b[n], sums[m][n]) for ascending k, with the even and the odd
// elements of pairs apart.
struct TilePairs {
  int num_rows;
  int num_pairs;                               // pairs of k
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
// Compiled with FMA, because without the instruction every multiply-add is a call.
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
    zero_register(T);
  }
  template <int T>
  void load(const void* p, int64_t stride) {
    load_register(T, static_cast<const uint8_t*>(p), stride);
  }
  template <int T>
  void store(void* p, int64_t stride) const {
    store_register(T, static_cast<uint8_t*>(p), stride);
  }

  template <int C, int A, int B>
  void dot_bf16() {
    add_bf16_products(C, A, B);
  }
  template <int C, int A, int B>
  void dot_s8() {
    add_s8_products(C, A, B);
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
  // The functions that kernels call many times take the register as an argument, because the
  // compiler would otherwise spend minutes on copies of them.
  __attribute__((noinline)) void zero_register(int tile) {
    require(shapes_.rows[tile] > 0);
    clear(tile);
  }
  __attribute__((noinline)) void load_register(int tile, const uint8_t* p, int64_t stride) {
    zero_register(tile);
    for (int r = 0; r < shapes_.rows[tile]; ++r) {
      __builtin_memcpy(data_[tile][r], p + r * stride, shapes_.row_bytes[tile]);
    }
  }
  __attribute__((noinline)) void store_register(int tile, uint8_t* p, int64_t stride) const {
    require(shapes_.rows[tile] > 0);
    for (int r = 0; r < shapes_.rows[tile]; ++r) {
      __builtin_memcpy(p + r * stride, data_[tile][r], shapes_.row_bytes[tile]);
    }
  }
  void clear(int tile) { __builtin_memset(data_[tile], 0, sizeof data_[tile]); }

  // The even and the odd elements of pairs are summed apart with fused multiply-adds, k ascending
  // from 0; then their sum is added to C.
  __attribute__((noinline)) void add_bf16_products(int c_tile, int a_tile, int b_tile) {
    require_product(c_tile, a_tile, b_tile);
    TilePairs t{.num_rows = shapes_.rows[c_tile],
                .num_pairs = shapes_.rows[b_tile],
                .a = {},
                .b = {},
                .sums = {}};
    for (int odd = 0; odd < 2; ++odd) {
      for (int k = 0; k < t.num_pairs; ++k) {
        for (int m = 0; m < t.num_rows; ++m) t.a[odd][k][m] = bf16(a_tile, m, 2 * k + odd);
        for (int n = 0; n < kTileColumns; ++n) t.b[odd][k][n] = bf16(b_tile, k, 2 * n + odd);
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
      __builtin_memcpy(c, data_[c_tile][m], sizeof c);
      for (int n = 0; n < kTileColumns; ++n) {
        c[n] = flush_subnormal(flush_subnormal(c[n]) +
                               flush_subnormal(t.sums[0][m][n] + t.sums[1][m][n]));
      }
      __builtin_memcpy(data_[c_tile][m], c, shapes_.row_bytes[c_tile]);
    }
  }

  __attribute__((noinline)) void add_s8_products(int c_tile, int a_tile, int b_tile) {
    require_product(c_tile, a_tile, b_tile);
    for (int m = 0; m < shapes_.rows[c_tile]; ++m) {
      for (int n = 0; n < shapes_.row_bytes[c_tile] / 4; ++n) {
        uint32_t c;  // wraps like the hardware's adder
        __builtin_memcpy(&c, data_[c_tile][m] + 4 * n, 4);
        for (int k = 0; k < 4 * shapes_.rows[b_tile]; ++k) {
          const int a = static_cast<int8_t>(data_[a_tile][m][k]);
          const int b = static_cast<int8_t>(data_[b_tile][k / 4][4 * n + k % 4]);
          c += static_cast<uint32_t>(a * b);
        }
        __builtin_memcpy(data_[c_tile][m] + 4 * n, &c, 4);
      }
    }
  }

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
