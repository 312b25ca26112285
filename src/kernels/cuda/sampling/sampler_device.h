// Shared by the parts of the sampler: a row of logits is cut into chunks of 64, each processed by
// half a warp, with four neighbouring values per lane (one Philox block of noise). The first pass
// finds the greatest value of each chunk, and later passes read only chunks that can matter.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/api/sampling.h"
#include "kernels/cuda/device_code.h"

namespace quire::cuda {

inline constexpr int kSampleThreads = 1024;
inline constexpr int kChunk = 64;  // as in kernels/cpu/sampling/row_kernels.h
inline constexpr int kMaxBins = 2304;

// A block's dynamic shared memory: these members, then a float per chunk, then a bit per token.
struct SampleMemory {
  float floats[32];
  double doubles[32];
  int32_t ints[32];
  uint64_t masses[32];
  uint32_t counts[kMaxBins];
  uint32_t mass_low[kMaxBins];
  uint32_t mass_high[kMaxBins];
};

struct LogitsRow {
  const float* values = nullptr;
  int64_t size = 0;
  float* chunk_max = nullptr;
  float max = 0.0f;
  float inverse_temperature = 1.0f;

  QUIRE_DEVICE int num_chunks() const { return static_cast<int>((size + kChunk - 1) / kChunk); }
  // Computes the same as LogitScale::of() of kernels/cpu/sampling/row_kernels.h.
  QUIRE_DEVICE float scaled(float x) const {
    return ptx::multiply(ptx::add(x, -max), inverse_temperature);
  }
};

// Loads values[first, first + 4), with -infinity from `size` on.
QUIRE_DEVICE void load_four(const float* values, int64_t first, int64_t size, float (&x)[4]) {
  if (size % 4 == 0 && first < size) return load<4>(values + first, x);
#pragma unroll
  for (int i = 0; i < 4; ++i) x[i] = first + i < size ? values[first + i] : -ptx::infinity();
}

// Calls visit(chunk, first, is_inside) for all chunks, in all lanes of a warp together, with half a
// warp per chunk. The lane's values start at `first`. In the last call of a warp, is_inside may be
// false for its second half.
template <typename Visit>
QUIRE_DEVICE void for_each_chunk(int num_chunks, Visit visit) {
  const int lane = ptx::thread_index() % 32;
  const int warps = ptx::block_threads() / 32;
  for (int pair = ptx::thread_index() / 32; pair * 2 < num_chunks; pair += warps) {
    const int chunk = pair * 2 + lane / 16;
    visit(chunk, int64_t{chunk} * kChunk + lane % 16 * 4, chunk < num_chunks);
  }
}

// Returns e^x for x <= 0, with the same operations as exp_nonpositive() of
// kernels/cpu/sampling/vector_math.h.
QUIRE_DEVICE float exp_nonpositive(float x) {
  constexpr float kRound = 12582912.0f;
  const float clamped = x < -87.0f ? -87.0f : x;
  const float n = ptx::add(ptx::add(ptx::multiply(clamped, 1.44269504f), kRound), -kRound);
  const float r = ptx::add(ptx::add(clamped, -ptx::multiply(n, 0.693359375f)),
                           -ptx::multiply(n, -2.12194440e-4f));
  constexpr float kSeries[] = {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f};
  float p = 1.0f / 5040;
#pragma unroll
  for (const float term : kSeries) p = ptx::add(ptx::multiply(p, r), term);
  const float power =
      ptx::bits_to_float(static_cast<uint32_t>(static_cast<int32_t>(n) + 127) << 23);
  return x < -87.0f ? 0.0f : ptx::multiply(p, power);
}

// --- over the block; `scratch` has 32 entries and may be reused on return ---

template <typename T, typename Combine>
QUIRE_DEVICE T block_fold(T x, T neutral, T* scratch, Combine combine) {
  const int warp = ptx::thread_index() / 32;
  const int lane = ptx::thread_index() % 32;
#pragma unroll
  for (int mask = 16; mask >= 1; mask /= 2) x = combine(x, ptx::shuffle_xor(x, mask));
  if (lane == 0) scratch[warp] = x;
  ptx::sync_threads();
  x = lane < ptx::block_threads() / 32 ? scratch[lane] : neutral;
#pragma unroll
  for (int mask = 16; mask >= 1; mask /= 2) x = combine(x, ptx::shuffle_xor(x, mask));
  ptx::sync_threads();
  return x;
}
QUIRE_DEVICE float block_max(float x, float* scratch) {
  return block_fold(x, -ptx::infinity(), scratch, [](float a, float b) { return ptx::max(a, b); });
}
QUIRE_DEVICE int32_t block_min(int32_t x, int32_t* scratch) {
  return block_fold(x, INT32_MAX, scratch, [](int32_t a, int32_t b) { return a < b ? a : b; });
}
QUIRE_DEVICE int32_t block_add(int32_t x, int32_t* scratch) {
  return block_fold(x, 0, scratch, [](int32_t a, int32_t b) { return a + b; });
}

// --- passes ---

QUIRE_DEVICE bool is_finite(float x) {
  return (ptx::float_to_bits(x) & 0x7f800000u) != 0x7f800000u;
}

// Stores the greatest of the half warp's values for its chunk.
QUIRE_DEVICE void store_chunk_max(const float (&x)[4], int chunk, bool is_inside,
                                  float* chunk_max) {
  float greatest = ptx::max(ptx::max(x[0], x[1]), ptx::max(x[2], x[3]));
#pragma unroll
  for (int mask = 8; mask >= 1; mask /= 2)
    greatest = ptx::max(greatest, ptx::shuffle_xor(greatest, mask));
  if (is_inside && ptx::thread_index() % 16 == 0) chunk_max[chunk] = greatest;
}

QUIRE_DEVICE void find_row_max(LogitsRow& row, SampleMemory& memory) {
  float greatest = -ptx::infinity();
  for (int c = ptx::thread_index(); c < row.num_chunks(); c += ptx::block_threads())
    greatest = ptx::max(greatest, row.chunk_max[c]);
  row.max = block_max(greatest, memory.floats);
}

// Fills row.chunk_max and row.max. Returns whether all values are finite.
QUIRE_DEVICE bool scan_row(LogitsRow& row, SampleMemory& memory) {
  int32_t bad = 0;
  for_each_chunk(row.num_chunks(), [&](int chunk, int64_t first, bool is_inside) {
    float x[4];
    load_four(row.values, first, is_inside ? row.size : 0, x);
#pragma unroll
    for (int i = 0; i < 4; ++i) bad |= first + i < row.size && !is_finite(x[i]) ? 1 : 0;
    store_chunk_max(x, chunk, is_inside, row.chunk_max);
  });
  const bool all_finite = block_add(bad, memory.ints) == 0;
  find_row_max(row, memory);
  return all_finite;
}

// Returns the first token, in order of ids, with the greatest value.
QUIRE_DEVICE int32_t row_argmax(const LogitsRow& row, SampleMemory& memory) {
  int32_t chunk = INT32_MAX;
  for (int c = ptx::thread_index(); c < row.num_chunks(); c += ptx::block_threads()) {
    if (row.chunk_max[c] == row.max && c < chunk) chunk = c;
  }
  chunk = block_min(chunk, memory.ints);
  int32_t token = INT32_MAX;
  const int64_t at = int64_t{chunk} * kChunk + ptx::thread_index();
  if (ptx::thread_index() < kChunk && at < row.size && row.values[at] == row.max)
    token = static_cast<int32_t>(at);
  return block_min(token, memory.ints);
}

}  // namespace quire::cuda
