// The operations that kernels/cuda/ptx.h wraps, as plain C++ over emulation::Block.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "base/dtype.h"
#include "kernels/cuda/emulation/block.h"

#define QUIRE_KERNEL void
#define QUIRE_DEVICE inline
#define QUIRE_HOST_DEVICE
#define QUIRE_BLOCK_BOUNDS(threads, blocks_per_sm)

namespace quire::cuda::ptx {

using emulation::Block;

inline int thread_index() { return Block::current().thread(); }
inline int block_threads() { return Block::current().shape().num_threads; }
inline int block_index() { return Block::current().shape().block_index; }
inline int num_blocks() { return Block::current().shape().num_blocks; }
inline uint8_t* shared_memory() { return Block::current().shared_memory(); }
inline void sync_threads() { Block::current().wait_for_block(); }
inline void sync_warp() { Block::current().wait_for_warp(); }

template <typename T>
T shuffle(T x, int lane) {
  return Block::current().exchange(x)[lane & 31];
}
template <typename T>
T shuffle_xor(T x, int mask) {
  return shuffle(x, (thread_index() % 32) ^ mask);
}
template <typename T>
T shuffle_up(T x, int delta) {
  const int lane = thread_index() % 32;
  return shuffle(x, lane >= delta ? lane - delta : lane);
}
inline uint32_t reduce_max(uint32_t x) {
  const auto* lanes = Block::current().exchange(x);
  return *std::max_element(lanes, lanes + 32);
}
inline uint32_t reduce_min(uint32_t x) {
  const auto* lanes = Block::current().exchange(x);
  return *std::min_element(lanes, lanes + 32);
}
inline uint32_t ballot(bool predicate) {
  const auto* lanes = Block::current().exchange(predicate ? 1u : 0u);
  uint32_t bits = 0;
  for (int lane = 0; lane < 32; ++lane) bits |= lanes[lane] << lane;
  return bits;
}

inline float bits_to_float(uint32_t bits) { return std::bit_cast<float>(bits); }
inline uint32_t float_to_bits(float x) { return std::bit_cast<uint32_t>(x); }
inline float max(float a, float b) { return std::fmax(a, b); }
inline float min(float a, float b) { return std::fmin(a, b); }
inline float infinity() { return std::numeric_limits<float>::infinity(); }
inline float multiply_add(float a, float b, float c) { return std::fma(a, b, c); }
inline float multiply(float a, float b) { return a * b; }
inline float add(float a, float b) { return a + b; }
inline float divide(float a, float b) { return a / b; }
inline double add(double a, double b) { return a + b; }
inline float exp2_fast(float x) { return std::exp2(x); }
inline float half_to_float(uint16_t bits) { return to_float(float16{bits}); }
inline uint32_t pack_bf16(float low, float high) {
  return uint32_t{to_bfloat16(high).bits} << 16 | to_bfloat16(low).bits;
}
// Returns element `i` (0 or 1) of a register of two bf16.
inline float bf16_of(uint32_t packed, int i) {
  return bits_to_float(i == 0 ? packed << 16 : packed & 0xffff0000u);
}
inline uint32_t multiply_add_bf16x2(uint32_t a, uint32_t b, uint32_t c) {
  return pack_bf16(std::fma(bf16_of(a, 0), bf16_of(b, 0), bf16_of(c, 0)),
                   std::fma(bf16_of(a, 1), bf16_of(b, 1), bf16_of(c, 1)));
}
inline uint32_t multiply_high(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>(uint64_t{a} * b >> 32);
}
inline uint32_t and_or(uint32_t a, uint32_t b, uint32_t c) { return (a & b) | c; }
inline uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t select) {
  const uint64_t bytes = uint64_t{b} << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i)
    result |= static_cast<uint32_t>(bytes >> (select >> (4 * i) & 7u) * 8 & 0xffu) << (8 * i);
  return result;
}
inline int count_bits(uint32_t x) { return std::popcount(x); }
inline int count_trailing_zeros(uint32_t x) { return std::countr_zero(x); }

template <typename T>
T atomic_add(T* at, T x) {
  return std::exchange(*at, *at + x);
}
inline uint32_t atomic_or(uint32_t* at, uint32_t x) { return std::exchange(*at, *at | x); }
inline uint32_t atomic_xor(uint32_t* at, uint32_t x) { return std::exchange(*at, *at ^ x); }
inline void copy_async_16(void* shared, const void* global, bool valid) {
  QUIRE_CHECK(reinterpret_cast<uintptr_t>(shared) % 16 == 0 &&
                  (!valid || reinterpret_cast<uintptr_t>(global) % 16 == 0),
              "asynchronous copy off 16 bytes");
  Block::current().copy_async(shared, global, valid);
}
inline void prefetch(const void* /*global*/) {}
inline void copy_async_commit() { Block::current().copy_async_commit(); }
template <int kPending>
void copy_async_wait() {
  Block::current().copy_async_wait(kPending);
}

inline void load_matrices(uint32_t (&to)[4], const void* shared_row) {
  QUIRE_CHECK(reinterpret_cast<uintptr_t>(shared_row) % 16 == 0, "matrix row off 16 bytes");
  const auto* rows = Block::current().exchange(static_cast<const uint16_t*>(shared_row));
  const int lane = thread_index() % 32;
  for (int j = 0; j < 4; ++j) {
    const uint16_t* row = rows[8 * j + lane / 4] + 2 * (lane % 4);
    to[j] = uint32_t{row[1]} << 16 | row[0];
  }
}
inline void load_matrices_transposed(uint32_t (&to)[4], const void* shared_row) {
  QUIRE_CHECK(reinterpret_cast<uintptr_t>(shared_row) % 16 == 0, "matrix row off 16 bytes");
  const auto* rows = Block::current().exchange(static_cast<const uint16_t*>(shared_row));
  const int lane = thread_index() % 32;
  for (int j = 0; j < 4; ++j) {
    const int first = 8 * j + 2 * (lane % 4);
    to[j] = uint32_t{rows[first + 1][lane / 4]} << 16 | rows[first][lane / 4];
  }
}

inline uint32_t transpose_matrix(uint32_t x) {
  const uint32_t* lanes = Block::current().exchange(x);
  const int lane = thread_index() % 32;
  const int row = 2 * (lane % 4);
  const int shift = lane / 4 % 2 * 16;
  const auto element = [&](int i) { return lanes[(row + i) * 4 + lane / 8] >> shift & 0xffffu; };
  return element(1) << 16 | element(0);
}

struct TileOperands {
  uint32_t a[4];
  uint32_t b[2];
};
inline void multiply_tiles(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  const TileOperands mine{{a[0], a[1], a[2], a[3]}, {b0, b1}};
  const TileOperands* lanes = Block::current().exchange(mine);
  const int lane = thread_index() % 32;
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + 8 * (i / 2);
    const int column = 2 * (lane % 4) + i % 2;
    float sum = d[i];
    for (int k = 0; k < 16; ++k) {
      const int owner = (k % 8) / 2;  // lane % 4 of the lane that has index k
      const float x = bf16_of(lanes[4 * (row % 8) + owner].a[row / 8 + 2 * (k / 8)], k % 2);
      const float y = bf16_of(lanes[4 * column + owner].b[k / 8], k % 2);
      sum += x * y;
    }
    d[i] = sum;
  }
}

// Returns element `i` (0 to 3) of a register of four int8.
inline int32_t int8_of(uint32_t packed, int i) {
  return static_cast<int8_t>(packed >> (8 * i) & 0xffu);
}
inline void multiply_int8_tiles(int32_t (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  const TileOperands mine{{a[0], a[1], a[2], a[3]}, {b0, b1}};
  const TileOperands* lanes = Block::current().exchange(mine);
  const int lane = thread_index() % 32;
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + 8 * (i / 2);
    const int column = 2 * (lane % 4) + i % 2;
    for (int k = 0; k < 32; ++k) {
      const int owner = k % 16 / 4;  // lane % 4 of the lane that has index k
      const int32_t x = int8_of(lanes[4 * (row % 8) + owner].a[row / 8 + 2 * (k / 16)], k % 4);
      d[i] += x * int8_of(lanes[4 * column + owner].b[k / 16], k % 4);
    }
  }
}

inline void wait_for_previous_kernel() {}
inline void let_next_kernel_start() {}

}  // namespace quire::cuda::ptx
