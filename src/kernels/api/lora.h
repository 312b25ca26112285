// Low-rank updates of linear outputs (LoRA; Hu et al., 2021): y += scale * B (A x), for rows that
// have an adapter, in one call for all adapters of a batch.
//
//   const LoraPart parts[] = {{.num_outputs = N, .rank = r, .a = a, .b = b, .scale = alpha / r}};
//   const LoraSegment segments[] = {{.rows = rows_of_adapter, .parts = parts}};
//   apply_lora(stream, {.x = x, .x_stride = K, .k = K, .segments = segments, .dtype = dtype,
//                       .y = y, .y_stride = N, .workspace = floats});
//
// A row's result depends on the row and its own adapter alone (law L4): A x is summed over k in
// one order, B over ranks in ascending order. Rows of no segment are not touched.
#pragma once

#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "device/stream.h"
#include "tensor/activations.h"

namespace quire {

// B lies in panels of so many outputs, [r][kLoraPanel] each, the last one padded with zeros.
inline constexpr int64_t kLoraPanel = 16;

// The update of one range of a linear's outputs: a fused matrix (q, k and v) has one per part.
//   y[n] += gain[n] * scale * sum_r b[n, r] * (sum_k a[r, k] x[k]) + bias[n]
//           + base_gain[n] * base[n]
struct LoraPart {
  int64_t first_output = 0;
  int64_t num_outputs = 0;
  int64_t rank = 0;                  // r >= 0
  const void* a = nullptr;           // [r, K]
  const void* b = nullptr;           // lora_b_elements(num_outputs, r), packed by pack_lora_b()
  float scale = 1.0f;                // of A x
  const float* bias = nullptr;       // [num_outputs] or null: added as it is
  const float* gain = nullptr;       // [num_outputs] or null: 1
  const float* base_gain = nullptr;  // [num_outputs] or null: 0; times LoraSegment::base
};

// The rows of one adapter.
struct LoraSegment {
  std::span<const int32_t> rows = {};  // of x and y, ascending, each in one segment
  std::span<const LoraPart> parts = {};
  // For parts with base_gain: row i belongs to rows[i].
  const float* base = nullptr;  // [rows.size(), base_stride]
  int64_t base_stride = 0;
};

struct LoraParams {
  ConstActivations x = nullptr;  // [M, K]
  int64_t x_stride = 0;          // elements between rows
  int64_t k = 0;                 // K
  std::span<const LoraSegment> segments = {};
  DType dtype = DType::kBF16;  // of A and B: f32, bf16 or f16
  Activations y = nullptr;     // [M, N], not x
  int64_t y_stride = 0;
  float* workspace = nullptr;  // lora_workspace_floats() floats
};
void apply_lora(Stream& stream, const LoraParams& params);

// Of any segments with so many rows in all, whose parts have ranks of at most `max_ranks` together.
constexpr int64_t lora_workspace_floats(int64_t num_rows, int64_t max_ranks) {
  return num_rows * max_ranks;
}

constexpr int64_t lora_b_elements(int64_t num_outputs, int64_t rank) {
  return (num_outputs + kLoraPanel - 1) / kLoraPanel * kLoraPanel * rank;
}
// Rows of B as a file has them, [num_outputs, r] of `bytes_per_element` each, in panels. Any
// thread.
void pack_lora_b(const void* rows, int64_t num_outputs, int64_t rank, int64_t bytes_per_element,
                 void* packed);

// Whether the stream's backend has these updates.
bool supports_lora(const Stream& stream);

}  // namespace quire
