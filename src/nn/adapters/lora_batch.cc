#include "nn/adapters/lora_batch.h"

#include <algorithm>

namespace quire {

int64_t LoraBatch::memory_bytes(const LoraLimits& limits, int64_t max_tokens) {
  if (limits.max_ranks == 0) return 0;
  return Arena::padded(max_tokens * 4) +
         Arena::padded(lora_workspace_floats(max_tokens, limits.max_ranks) * 4);
}

LoraBatch::LoraBatch(const LoraLimits& limits, int64_t max_tokens, Stream& stream, Arena& arena)
    : limits_(limits),
      stream_(stream),
      rows_(arena.allocate<int32_t>(max_tokens)),
      workspace_(arena.allocate<float>(lora_workspace_floats(max_tokens, limits.max_ranks))) {}

void LoraBatch::begin(std::span<const LoraRows> adapters, int64_t num_tokens) {
  adapters_ = adapters;
  select(0, num_tokens);
}

void LoraBatch::select(int64_t begin, int64_t count) {
  selected_.clear();
  int32_t* to = rows_;
  for (const LoraRows& adapter : adapters_) {
    const auto first = std::lower_bound(adapter.rows.begin(), adapter.rows.end(), begin);
    const auto last = std::lower_bound(first, adapter.rows.end(), begin + count);
    if (first == last) continue;
    int32_t* const end = std::transform(
        first, last, to, [begin](int32_t row) { return row - static_cast<int32_t>(begin); });
    selected_.push_back({adapter.weights, {to, end}});
    to = end;
  }
}

bool LoraBatch::changes(const MatrixWeight& matrix) const {
  return std::any_of(selected_.begin(), selected_.end(), [&](const LoraRows& adapter) {
    return !adapter.weights->parts(matrix).empty();
  });
}

void LoraBatch::apply(const MatrixWeight& matrix, ConstActivations x, int64_t x_stride,
                      Activations y, int64_t y_stride) {
  segments_.clear();
  for (const LoraRows& adapter : selected_) {
    const std::span<const LoraPart> parts = adapter.weights->parts(matrix);
    if (!parts.empty()) segments_.push_back({.rows = adapter.rows, .parts = parts});
  }
  if (segments_.empty()) return;
  apply_lora(stream_, {.x = x,
                       .x_stride = x_stride,
                       .k = matrix.k,
                       .segments = segments_,
                       .dtype = limits_.dtype,
                       .y = y,
                       .y_stride = y_stride,
                       .workspace = workspace_});
}

}  // namespace quire
