// The workspace of run_experts().
#pragma once

#include <algorithm>
#include <span>

#include "base/check.h"
#include "kernels/api/experts.h"
#include "kernels/cpu/experts/grouping.h"
#include "kernels/cpu/linear/product.h"
#include "kernels/cpu/linear_columns.h"

namespace quire::cpu {

// Pieces of columns begin at a panel, of dense and of quantized weights alike.
inline constexpr int64_t kExpertsPanel = kQuantPanel;
static_assert(kExpertsPanel % kPanelWidth == 0);
// No kernel packs more rows as one block.
inline constexpr int64_t kMostBlockRows = 64;

// Returns whether rows that were packed for one weight can be multiplied by the other.
inline bool pack_alike(const WeightSpec& a, const WeightSpec& b) {
  return a.dtype == b.dtype && a.compute == b.compute && a.quant == b.quant &&
         !a.quant.has_column_order;
}

inline bool is_same(const WeightSpec& a, const WeightSpec& b) {
  return a.n == b.n && a.k == b.k && a.dtype == b.dtype && a.compute == b.compute &&
         a.quant == b.quant;
}

inline bool is_alike(const ExpertWeights& a, const ExpertWeights& b) {
  return is_same(a.up->spec, b.up->spec) && is_same(a.down->spec, b.down->spec) &&
         (a.gate == nullptr || is_same(a.gate->spec, b.gate->spec));
}

// Returns whether another rank has the expert (ExpertsSpread).
inline bool is_elsewhere(const ExpertWeights& expert) {
  return expert.up == nullptr && expert.down == nullptr;
}

inline int64_t packed_row_bytes(Isa isa, const PackedWeight& weight) {
  return with_product(isa, weight, 1, [](const auto& product) { return product.packed_bytes(); });
}

// The sizes of the workspace's parts, all of which grow with the number of tokens.
struct ExpertsCut {
  int64_t grouping_bytes = 0;
  int64_t row_bytes = 0;     // the most of a packed row, for any weight
  int64_t packed_bytes = 0;  // rows for gate, up or down; those of up may be in up_packed
  int64_t up_packed_bytes = 0;
  int64_t scratch_bytes = 0;  // per thread
  int64_t slab_floats = 0;    // per thread: gate and up of some columns
  int64_t gather_floats = 0;  // per thread: the inputs of a block of rows
  int64_t hidden_stride = 0;
  int64_t hidden_floats = 0;              // [T * k, I]
  int64_t output_floats = 0;              // [T * k, E]
  const ExpertWeights* sample = nullptr;  // the first expert that is here

  ExpertsCut(const HostStream& stream, int64_t num_tokens, std::span<const ExpertWeights> experts,
             int32_t per_token) {
    const Isa isa = stream.isa();
    const int64_t threads = stream.team().size();
    const int64_t num_pairs = num_tokens * per_token;
    grouping_bytes = Grouping::bytes(num_pairs, static_cast<int64_t>(experts.size()));
    bool up_apart = false;
    // Most experts have the same formats as the one before, and are skipped.
    const ExpertWeights* before = nullptr;
    for (const ExpertWeights& expert : experts) {
      if (is_elsewhere(expert) || (before != nullptr && is_alike(*before, expert))) continue;
      if (sample == nullptr) sample = &expert;
      before = &expert;
      for (const PackedWeight* weight : {expert.gate, expert.up, expert.down}) {
        if (weight == nullptr) continue;
        row_bytes = std::max(row_bytes, packed_row_bytes(isa, *weight));
        scratch_bytes =
            std::max(scratch_bytes,
                     with_product(isa, *weight, std::max<int64_t>(num_tokens, 1),
                                  [](const auto& product) { return product.scratch_bytes(); }));
      }
      up_apart =
          up_apart || (expert.gate != nullptr && !pack_alike(expert.gate->spec, expert.up->spec));
    }
    QUIRE_CHECK(sample != nullptr, "none of {} experts is here", experts.size());
    const int64_t expert_size = sample->up->spec.n;
    packed_bytes = std::max(num_pairs, threads * std::min(num_pairs, kPrivateRows)) * row_bytes;
    up_packed_bytes = up_apart ? packed_bytes : 0;
    const int64_t whole = 2 * num_tokens * round_up(expert_size, kExpertsPanel);
    slab_floats = std::min(
        whole, std::max(kSlabBytes / int64_t{sizeof(float)}, 2 * num_tokens * kExpertsPanel));
    gather_floats = kMostBlockRows * round_up(sample->up->spec.k, 16);
    // Rows of a power of two floats would all map to the same cache sets.
    hidden_stride = round_up(expert_size, 16) + 16;
    hidden_floats = num_pairs * hidden_stride;
    output_floats = num_pairs * sample->down->spec.n;
  }

  int64_t bytes(int num_threads) const {
    return 64 + grouping_bytes + packed_bytes + up_packed_bytes +
           num_threads *
               (round_up(scratch_bytes, 64) + (round_up(slab_floats, 16) + gather_floats) * 4) +
           (round_up(hidden_floats, 16) + output_floats) * int64_t{sizeof(float)};
  }
};

}  // namespace quire::cpu
