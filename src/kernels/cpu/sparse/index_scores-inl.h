// Computes the scores of an indexer. A score is summed over dims in ascending order in each lane,
// then over vectors of heads in ascending order, and then over lanes, however keys and heads are
// blocked.
#pragma once

#include "kernels/cpu/simd/simd-inl.h"
#include "kernels/cpu/sparse/index_kernels.h"

namespace quire {
namespace {

// kKeys and kVectors are the keys and the vectors of heads that are in registers at once.
template <class Traits>
concept IndexTraits = requires {
  int{Traits::kKeys};
  int{Traits::kVectors};
};

// Computes sums[key] += weights * relu(query . key) for VECTORS vectors of heads from `head` on.
template <int KEYS, int VECTORS>
QUIRE_SIMD void add_heads(const cpu::IndexScoresArgs& args, const float* keys, int64_t head,
                          F16 (&sums)[KEYS]) {
  F16 dots[KEYS][VECTORS];
#pragma GCC unroll 4
  for (int key = 0; key < KEYS; ++key) {
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; ++v) dots[key][v] = zero();
  }
  const float* query = args.query + head;
  for (int64_t d = 0; d < args.head_dim; ++d, query += args.heads) {
    F16 heads[VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; ++v) heads[v] = load(query + 16 * v);
#pragma GCC unroll 4
    for (int key = 0; key < KEYS; ++key) {
      const F16 x = set1(keys[key * args.head_dim + d]);
#pragma GCC unroll 4
      for (int v = 0; v < VECTORS; ++v) dots[key][v] = fma(x, heads[v], dots[key][v]);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < VECTORS; ++v) {
    const F16 weights = load(args.weights + head + 16 * v);
#pragma GCC unroll 4
    for (int key = 0; key < KEYS; ++key)
      sums[key] = fma(weights, max(zero(), dots[key][v]), sums[key]);
  }
}

template <IndexTraits Traits, int KEYS>
static void score_keys(const cpu::IndexScoresArgs& args, int64_t first) {
  constexpr int kVectors = Traits::kVectors;
  const float* keys = args.keys + first * args.head_dim;
  F16 sums[KEYS];
  for (int key = 0; key < KEYS; ++key) sums[key] = zero();
  int64_t head = 0;
  for (; head + 16 * kVectors <= args.heads; head += 16 * kVectors)
    add_heads<KEYS, kVectors>(args, keys, head, sums);
  for (; head < args.heads; head += 16) add_heads<KEYS, 1>(args, keys, head, sums);
  for (int key = 0; key < KEYS; ++key) args.scores[first + key] = reduce_add(sums[key]);
}

template <IndexTraits Traits>
static void index_scores(const cpu::IndexScoresArgs& args) {
  constexpr int kKeys = Traits::kKeys;
  int64_t key = 0;
  for (; key + kKeys <= args.num_keys; key += kKeys) score_keys<Traits, kKeys>(args, key);
  for (; key < args.num_keys; ++key) score_keys<Traits, 1>(args, key);
}

// The table that the object file of an instruction set exports.
template <IndexTraits Traits>
constexpr cpu::IndexKernels kIndexOver = {.scores = &index_scores<Traits>};

}  // namespace
}  // namespace quire
