// Passes over a whole row of logits, compiled once per instruction set: the greatest values, sums
// of exponentials, and the chunks where random noise can win. A row is cut into chunks of 64. After
// the first pass most work reads only the chunks whose greatest value is large enough.
//
// A row gives the same bits on every instruction set: additions have one order, and nothing is
// fused.
#pragma once

#include <stdint.h>

#include "device/stream.h"

namespace quire {

constexpr int64_t kRowChunk = 64;
constexpr int64_t kChunkGroup = 16;  // the most chunks of a call of leading_chunks()

// scaled(x) = (x - max) * inverse_temperature, in float.
struct LogitScale {
  float max = 0.0f;
  float inverse_temperature = 1.0f;

  float of(float x) const { return (x - max) * inverse_temperature; }
};

struct RowKernels {
  // Sets chunk_max[c] to the greatest value of chunk c. Returns whether all n values are finite.
  bool (*scan)(const float* row, int64_t n, float* chunk_max);

  // Sets chunk_sum[c] to the sum of e^scaled over the values of chunk c with scaled >= low.
  // chunk_max comes from scan().
  void (*exp_sums)(const float* row, int64_t n, const float* chunk_max, LogitScale scale, float low,
                   float* chunk_sum);

  // Does exp_sums() and sets weights[i] to e^scaled, or to 0 if scaled < low. The weights of chunks
  // that are wholly below `low` are not written. `weights` has room for whole chunks.
  void (*exp_weights)(const float* row, int64_t n, const float* chunk_max, LogitScale scale,
                      float low, float* weights, float* chunk_sum);

  // Sets mass[k] to the sum of e^scaled over all values with scaled >= low[k], for 8 bounds.
  void (*mass_above)(const float* row, int64_t n, LogitScale scale, const float* low, double* mass);

  // Writes the scaled values in `range` to `out`, in order, and returns how many they are. `out`
  // has room for n + 16.
  int64_t (*collect)(const float* row, int64_t n, const float* chunk_max, LogitScale scale,
                     struct ScaledRange range, float* out);

  // Does collect(), and sums the weights of the values in the range and of those above it.
  // `weights` come from exp_weights() with a `low` that is not above the range's, which is at least
  // -87.
  struct BandMass (*split_band)(const float* row, const float* weights, int64_t n,
                                const float* chunk_max, LogitScale scale, struct ScaledRange range,
                                float* out);

  // Returns bits, of which bit c says whether a token of chunk first_chunk + c can have scaled +
  // Gumbel noise >= best. Word i of the row's noise is word i % 4 of Philox block i / 4 at
  // `position` under `seed`. chunk_max is that of the at most kChunkGroup chunks, of which those
  // below `low` are skipped.
  uint32_t (*leading_chunks)(const struct NoiseQuery& query);
};

// Scaled logits in [low, below).
struct ScaledRange {
  float low;
  float below;
};

struct BandMass {
  int64_t count;  // values in the range
  double above;   // sum of e^scaled over scaled >= below
  double inside;  // the same over those in the range
};

struct NoiseQuery {
  uint64_t seed;
  uint32_t position;
  int64_t first_chunk;
  int64_t num_chunks;
  const float* chunk_max;  // from first_chunk on
  LogitScale scale;
  float low;
  float best;
};

// Returns the best kernels that `isa` allows.
const RowKernels& row_kernels(Isa isa);

}  // namespace quire
