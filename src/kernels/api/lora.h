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

// How A and B lie.
enum class LoraLayout : uint8_t {
  // CPUs: rows of A as they are; B in panels of kLoraPanel outputs, [r][kLoraPanel] each, the last
  // one padded with zeros.
  kPanels,
  // GPUs: rows of A and of B, each padded with zeros to a multiple of kLoraVector elements.
  kRows,
};
inline constexpr int64_t kLoraPanel = 16;
inline constexpr int64_t kLoraVector = 8;

// The update of one range of a linear's outputs: a fused matrix (q, k and v) has one per part.
//   y[n] += gain[n] * scale * sum_r b[n, r] * (sum_k a[r, k] x[k]) + bias[n]
//           + base_gain[n] * base[n]
struct LoraPart {
  int64_t first_output = 0;
  int64_t num_outputs = 0;
  int64_t rank = 0;                  // r >= 0
  const void* a = nullptr;           // [r, K], padded as the layout says
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

constexpr int64_t padded_lora_row(int64_t num_elements) {
  return (num_elements + kLoraVector - 1) / kLoraVector * kLoraVector;
}
constexpr int64_t lora_a_elements(int64_t rank, int64_t k, LoraLayout layout) {
  return rank * (layout == LoraLayout::kRows ? padded_lora_row(k) : k);
}
constexpr int64_t lora_b_elements(int64_t num_outputs, int64_t rank,
                                  LoraLayout layout = LoraLayout::kPanels) {
  if (layout == LoraLayout::kRows) return num_outputs * padded_lora_row(rank);
  return (num_outputs + kLoraPanel - 1) / kLoraPanel * kLoraPanel * rank;
}
// Rows of B as a file has them, [num_outputs, r] of `bytes_per_element` each, in panels. Any
// thread.
void pack_lora_b(const void* rows, int64_t num_outputs, int64_t rank, int64_t bytes_per_element,
                 void* packed);

// The same on a GPU, in two steps: A x, which needs nothing of the product, and behind the product B
// of it. Which row has which adapter is read on the device, so that a captured graph serves every
// batch and whatever is loaded into the slots. A and B are bf16 in LoraLayout::kRows.
struct LoraSlotsParams {
  ConstActivations x = nullptr;  // [M, K], bf16
  int64_t x_stride = 0;
  int64_t k = 0;
  // On the device: the parts of slot 0, of which those without outputs change nothing. Those of slot
  // s lie s * slot_stride parts behind them.
  const LoraPart* parts = nullptr;
  int64_t slot_stride = 0;
  int32_t num_parts = 0;
  int64_t max_rank = 0;             // of any part; a multiple of kLoraVector
  const int32_t* slots = nullptr;   // of each token of the batch; -1: none
  const int32_t* tokens = nullptr;  // [M]: whose slot row i has; null: token i
  // [M]: rows that have a slot, those of one slot beside each other, and then -1. Null: all rows, in
  // order. It changes what a step costs and no bits.
  const int32_t* order = nullptr;
  int64_t num_rows = 0;  // M
  Activations y = nullptr;
  int64_t y_stride = 0;
  int64_t num_outputs = 0;  // N
  // lora_workspace_floats(M, num_parts * max_rank) floats, which shrink_lora() fills.
  float* workspace = nullptr;
  // [M, base_stride]: what parts with base_gain scale. Null: such parts are left out; else only
  // they are added.
  const float* base = nullptr;
  int64_t base_stride = 0;
};
void shrink_lora(Stream& stream, const LoraSlotsParams& params);
void expand_lora(Stream& stream, const LoraSlotsParams& params);

}  // namespace quire
