#include "nn/adapters/lora_batch.h"

#include <algorithm>

#include "kernels/api/linear.h"

namespace quire {
namespace {

// Rows whose product is made once more for updates that scale it (DoRA).
constexpr int64_t kBaseRows = 32;

}  // namespace

int64_t LoraBatch::memory_bytes(const LoraLimits& limits, int64_t max_tokens) {
  if (limits.max_ranks == 0) return 0;
  return Arena::padded(max_tokens * 4) +
         Arena::padded(lora_workspace_floats(max_tokens, limits.max_ranks) * 4) +
         Arena::padded(kBaseRows * limits.max_inputs * 4) +
         Arena::padded(kBaseRows * limits.max_outputs * 4);
}

LoraBatch::LoraBatch(const LoraLimits& limits, int64_t max_tokens, Stream& stream, Arena& arena)
    : limits_(limits),
      stream_(stream),
      rows_(arena.allocate<int32_t>(max_tokens)),
      workspace_(arena.allocate<float>(lora_workspace_floats(max_tokens, limits.max_ranks))),
      base_x_(arena.allocate<float>(kBaseRows * limits.max_inputs)),
      base_y_(arena.allocate<float>(kBaseRows * limits.max_outputs)) {}

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

void LoraBatch::apply(const Product& product) {
  segments_.clear();
  for (const LoraRows& adapter : selected_) {
    const std::span<const LoraPart> parts = adapter.weights->parts(product.matrix);
    if (parts.empty()) continue;
    if (adapter.weights->scales_base()) {
      apply_to_scaled(product, adapter);
    } else {
      segments_.push_back({.rows = adapter.rows, .parts = parts});
    }
  }
  if (!segments_.empty()) apply(product, segments_);
}

void LoraBatch::apply(const Product& product, std::span<const LoraSegment> segments) {
  apply_lora(stream_, {.x = product.x,
                       .x_stride = product.x_stride,
                       .k = product.matrix.k,
                       .segments = segments,
                       .dtype = limits_.dtype,
                       .y = product.y,
                       .y_stride = product.y_stride,
                       .workspace = workspace_});
}

// y has got a bias, a residual or more by now, so the product alone is made again, with the same
// bits: a row of it depends on no other.
void LoraBatch::apply_to_scaled(const Product& product, const LoraRows& adapter) {
  const MatrixWeight& matrix = product.matrix;
  const float* const x = product.x;
  for (size_t begin = 0; begin < adapter.rows.size(); begin += kBaseRows) {
    const std::span<const int32_t> rows =
        adapter.rows.subspan(begin, std::min<size_t>(kBaseRows, adapter.rows.size() - begin));
    for (size_t i = 0; i < rows.size(); ++i)
      std::copy_n(x + rows[i] * product.x_stride, matrix.k,
                  base_x_ + static_cast<int64_t>(i) * matrix.k);
    int64_t first = 0;
    for (const PackedWeight& part : matrix.parts) {
      linear(stream_, {.x = base_x_,
                       .x_stride = matrix.k,
                       .weight = &part,
                       .y = base_y_ + first,
                       .y_stride = matrix.n,
                       .num_rows = std::ssize(rows),
                       .workspace = product.linear_workspace});
      first += part.spec.n;
    }
    const LoraSegment segment{.rows = rows,
                              .parts = adapter.weights->parts(matrix),
                              .base = base_y_,
                              .base_stride = matrix.n};
    apply(product, {&segment, 1});
  }
}

}  // namespace quire
