// Passes over a whole row of logits, once per instruction set: the greatest values, sums of
// exponentials, and where random noise may win. A row is cut in chunks of 64; most work after the
// first pass touches only chunks whose greatest value says that it must.
//
// Same row, same bits, on every instruction set: additions have one order, nothing is fused.
#pragma once

#include <stdint.h>

#include "device/stream.h"

namespace quire {

constexpr int64_t kRowChunk = 64;
constexpr int64_t kChunkGroup = 16;  // chunks that leading_chunks() looks at together

// scaled(x) = (x - max) * inverse_temperature, in float.
struct LogitScale {
  float max = 0.0f;
  float inverse_temperature = 1.0f;

  float of(float x) const { return (x - max) * inverse_temperature; }
};

struct RowKernels {
  // chunk_max[c] = the greatest of chunk c. True when all n values are finite.
  bool (*scan)(const float* row, int64_t n, float* chunk_max);

  // chunk_sum[c] = sum of e^scaled over the values of chunk c with scaled >= low. chunk_max: what
  // scan() found.
  void (*exp_sums)(const float* row, int64_t n, const float* chunk_max, LogitScale scale, float low,
                   float* chunk_sum);

  // As exp_sums(), and weights[i] = e^scaled, 0 where scaled < low; not written for chunks that are
  // wholly below `low`. `weights` has room for whole chunks.
  void (*exp_weights)(const float* row, int64_t n, const float* chunk_max, LogitScale scale,
                      float low, float* weights, float* chunk_sum);

  // mass[k] = sum of e^scaled over all values with scaled >= low[k], for 8 bounds.
  void (*mass_above)(const float* row, int64_t n, LogitScale scale, const float* low, double* mass);

  // out[0, count) = the scaled values in `range`, in order; `out` has room for n + 16.
  // Returns count.
  int64_t (*collect)(const float* row, int64_t n, const float* chunk_max, LogitScale scale,
                     struct ScaledRange range, float* out);

  // As collect(), and what those in the range and those above it weigh by exp_weights() with a
  // `low` no greater than the range's, which is at least -87.
  struct BandMass (*split_band)(const float* row, const float* weights, int64_t n,
                                const float* chunk_max, LogitScale scale, struct ScaledRange range,
                                float* out);

  // Bit c: some token of chunk first_chunk + c may have scaled + Gumbel noise >= best. Word i of
  // the noise of the row is word i % 4 of Philox block i / 4 at `position` under `seed`.
  // chunk_max: of the (at most kChunkGroup) chunks; none that is below `low` is looked at.
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
  double inside;  // over those in the range
};

struct NoiseQuery {
  uint64_t seed;
  uint32_t position;
  int64_t first_chunk;
  int64_t num_chunks;
  const float* chunk_max;  // of first_chunk, …
  LogitScale scale;
  float low;
  float best;
};

// The best kernels that `isa` allows.
const RowKernels& row_kernels(Isa isa);

}  // namespace quire
