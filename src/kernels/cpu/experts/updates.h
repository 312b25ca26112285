// The updates that adapters add to the products of experts. A x of every row is computed once per
// round, and B (A x) is added to each piece of columns after its product.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kernels/api/experts.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/experts/grouping.h"
#include "kernels/cpu/lora/lora_kernels.h"

namespace quire::cpu {

// The rows of one expert that have one adapter.
struct UpdateGroup {
  const ExpertUpdate* update;
  int32_t first;  // its first row in the lists of ExpertUpdateRows
  int32_t num_rows;
};

// The rows of a batch that have an adapter. Row numbers are those of Grouping, except in local_.
class ExpertUpdateRows {
 public:
  static int64_t bytes(int64_t num_pairs, int64_t num_experts, int64_t max_rank) {
    const int64_t lists = (3 * num_pairs + num_experts + 1) * int64_t{sizeof(int32_t)};
    return 64 + round_up(lists, 64) + round_up(num_pairs * int64_t{sizeof(UpdateGroup)}, 64) +
           2 * num_pairs * max_rank * int64_t{sizeof(float)};
  }

  // Builds the lists in updates.workspace. Experts that are not active have no rows in them.
  ExpertUpdateRows(const ExpertUpdates& updates, const Grouping& grouping, int64_t num_pairs,
                   int64_t num_experts, Isa isa)
      : updates_(updates), kernels_(lora_kernels(isa)) {
    auto* at = reinterpret_cast<uint8_t*>(
        round_up(static_cast<int64_t>(reinterpret_cast<uintptr_t>(updates.workspace)), 64));
    tokens_ = reinterpret_cast<int32_t*>(at);
    rows_ = tokens_ + num_pairs;
    local_ = rows_ + num_pairs;
    first_group_ = local_ + num_pairs;
    at += round_up((3 * num_pairs + num_experts + 1) * int64_t{sizeof(int32_t)}, 64);
    groups_ = reinterpret_cast<UpdateGroup*>(at);
    at += round_up(num_pairs * int64_t{sizeof(UpdateGroup)}, 64);
    sums_ = reinterpret_cast<float*>(at);
    up_sums_ = sums_ + num_pairs * updates.max_rank;
    std::fill_n(first_group_, num_experts + 1, 0);
    int32_t num_rows = 0;
    for (int32_t i = 0; i < grouping.num_active; ++i) {
      const int32_t expert = grouping.active[i];
      std::fill(first_group_ + (i == 0 ? 0 : grouping.active[i - 1] + 1), first_group_ + expert + 1,
                num_groups_);
      add_groups(grouping, expert, num_rows);
    }
    const int32_t behind =
        grouping.num_active == 0 ? 0 : grouping.active[grouping.num_active - 1] + 1;
    std::fill(first_group_ + behind, first_group_ + num_experts + 1, num_groups_);
  }

  // Computes A x for gate and up from rows of x [T, k]; once, if both have the same A and scale.
  void shrink_inputs(const HostStream& stream, const float* x, int64_t k) const {
    shrink(stream, &ExpertUpdate::gate, {x, k, k, tokens_}, sums_);
    shrink(stream, &ExpertUpdate::up, {x, k, k, tokens_}, up_sums_);
  }
  // Computes A h for down from the rows of all experts' inside.
  void shrink_inside(const HostStream& stream, const float* h, int64_t stride, int64_t k) const {
    shrink(stream, &ExpertUpdate::down, {h, stride, k, rows_}, sums_);
  }

  // Add the updates to `columns` of the expert's rows; y is the first row at the first column.
  void add_gate(int32_t expert, WorkRange columns, float* y, int64_t y_stride) const {
    expand(expert, &ExpertUpdate::gate, columns, y, y_stride);
  }
  void add_up(int32_t expert, WorkRange columns, float* y, int64_t y_stride) const {
    expand(expert, &ExpertUpdate::up, columns, y, y_stride);
  }
  void add_down(int32_t expert, WorkRange columns, float* y, int64_t y_stride) const {
    expand(expert, &ExpertUpdate::down, columns, y, y_stride);
  }

 private:
  using Part = const LoraPart* ExpertUpdate::*;
  struct Inputs {
    const float* x;
    int64_t stride, k;
    const int32_t* rows;
  };
  // Ranks that a thread takes at once, and the least multiply-adds for which to wake the team.
  static constexpr int64_t kChunkRanks = 4;
  static constexpr int64_t kWorthWaking = 1 << 14;

  void add_groups(const Grouping& grouping, int32_t expert, int32_t& num_rows) {
    const int32_t begin = grouping.first_row[expert], end = grouping.first_row[expert + 1];
    for (size_t adapter = 0; adapter < updates_.adapters.size(); ++adapter) {
      const auto number = static_cast<int32_t>(adapter);
      const ExpertUpdate& update = updates_.adapters[adapter][static_cast<size_t>(expert)];
      if (update.gate == nullptr && update.up == nullptr && update.down == nullptr) continue;
      const int32_t first = num_rows;
      for (int32_t row = begin; row < end; ++row) {
        const int32_t token = grouping.token_of[row];
        if (updates_.adapter_of[token] != number) continue;
        tokens_[num_rows] = token;
        rows_[num_rows] = row;
        local_[num_rows++] = row - begin;
      }
      if (num_rows > first) groups_[num_groups_++] = {&update, first, num_rows - first};
    }
  }

  void shrink(const HostStream& stream, Part which, const Inputs& in, float* sums) const {
    int64_t num_chunks = 0, work = 0;
    for_each_chunk(which, [&](const UpdateGroup& group, const LoraPart& part, int64_t /*rank*/) {
      ++num_chunks;
      work += group.num_rows * std::min(part.rank, kChunkRanks) * in.k;
    });
    run_parallel(stream, work, kWorthWaking, [&](int thread, int num_threads) {
      const WorkRange mine = split_work(num_chunks, 1, thread, num_threads);
      int64_t chunk = 0;
      for_each_chunk(which, [&](const UpdateGroup& group, const LoraPart& part, int64_t rank) {
        if (chunk >= mine.begin && chunk < mine.end) shrink_chunk(group, part, rank, in, sums);
        ++chunk;
      });
    });
  }

  static bool is_shared(const ExpertUpdate& update) {
    return update.gate != nullptr && update.up != nullptr && update.gate->a == update.up->a &&
           update.gate->scale == update.up->scale;
  }

  template <class Use>
  void for_each_chunk(Part which, const Use& use) const {
    for (int32_t i = 0; i < num_groups_; ++i) {
      const ExpertUpdate& update = *groups_[i].update;
      const LoraPart* const part = update.*which;
      if (which == &ExpertUpdate::up && is_shared(update)) continue;
      for (int64_t rank = 0; part != nullptr && rank < part->rank; rank += kChunkRanks)
        use(groups_[i], *part, rank);
    }
  }

  void shrink_chunk(const UpdateGroup& group, const LoraPart& part, int64_t rank, const Inputs& in,
                    float* sums) const {
    const auto* a = static_cast<const uint8_t*>(part.a);
    kernels_.shrink({.x = in.x,
                     .x_stride = in.stride,
                     .rows = in.rows + group.first,
                     .num_rows = group.num_rows,
                     .a = a + rank * in.k * size_bytes(updates_.dtype),
                     .num_ranks = std::min(kChunkRanks, part.rank - rank),
                     .k = in.k,
                     .storage = storage_of(updates_.dtype),
                     .scale = part.scale,
                     .h = sums + group.first * updates_.max_rank + rank,
                     .h_stride = part.rank});
  }

  void expand(int32_t expert, Part which, WorkRange columns, float* y, int64_t y_stride) const {
    for (int32_t i = first_group_[expert]; i < first_group_[expert + 1]; ++i) {
      const ExpertUpdate& update = *groups_[i].update;
      const LoraPart* const part = update.*which;
      if (part == nullptr) continue;
      const bool has_own = which == &ExpertUpdate::up && !is_shared(update);
      const float* const sums = has_own ? up_sums_ : sums_;
      const auto* b = static_cast<const uint8_t*>(part->b);
      const auto from = [&](const float* values) {
        return values == nullptr ? nullptr : values + columns.begin;
      };
      kernels_.expand({.h = sums + groups_[i].first * updates_.max_rank,
                       .h_stride = part->rank,
                       .rows = local_ + groups_[i].first,
                       .num_rows = groups_[i].num_rows,
                       .b = b + columns.begin * part->rank * size_bytes(updates_.dtype),
                       .rank = part->rank,
                       .num_outputs = columns.end - columns.begin,
                       .storage = storage_of(updates_.dtype),
                       .bias = from(part->bias),
                       .gain = from(part->gain),
                       .base_gain = nullptr,
                       .base = nullptr,
                       .base_stride = 0,
                       .y = y,
                       .y_stride = y_stride});
    }
  }

  const ExpertUpdates& updates_;
  const LoraKernels& kernels_;
  int32_t num_groups_ = 0;
  int32_t* tokens_;       // [rows with an adapter] the token of each
  int32_t* rows_;         // the row among those of all experts
  int32_t* local_;        // the row among those of its expert
  int32_t* first_group_;  // [X + 1] of each expert in groups_
  UpdateGroup* groups_;
  float* sums_;  // per group: [num_rows, rank], from group.first * max_rank on
  float* up_sums_;
};

}  // namespace quire::cpu
