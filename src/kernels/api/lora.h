// Low-rank updates of linear outputs (LoRA; Hu et al., 2021): y += scale * B (A x) for the rows
// that have an adapter. One call computes the updates of all adapters of a batch.
//
//   const LoraPart parts[] = {{.num_outputs = N, .rank = r, .a = a, .b = b, .scale = alpha / r}};
//   const LoraSegment segments[] = {{.rows = rows_of_adapter, .parts = parts}};
//   apply_lora(stream, {.x = x, .x_stride = K, .k = K, .segments = segments, .dtype = dtype,
//                       .y = y, .y_stride = N, .workspace = floats});
//
// A row's result depends on the row and its own adapter alone (law L4): A x is summed over k in one
// order, and B (A x) over ranks in ascending order. Rows of no segment are not touched.
#pragma once

#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "device/stream.h"
#include "tensor/activations.h"

namespace quire {

// How A and B are stored.
enum class LoraLayout : uint8_t {
  // On CPUs: A as rows without padding; B in panels of kLoraPanel outputs, each [r][kLoraPanel], of
  // which the last is padded with zeros.
  kPanels,
  // On GPUs: A and B as rows, each padded with zeros to a multiple of kLoraVector elements.
  kRows,
};
inline constexpr int64_t kLoraPanel = 16;
inline constexpr int64_t kLoraVector = 8;

// The update of one range of a linear op's outputs. A fused matrix (q, k and v) has one for each
// part.
//   y[n] += gain[n] * scale * sum_r b[n, r] * (sum_k a[r, k] x[k]) + bias[n]
//           + base_gain[n] * base[n]
struct LoraPart {
  int64_t first_output = 0;
  int64_t num_outputs = 0;
  int64_t rank = 0;                  // r >= 0
  const void* a = nullptr;           // [r, K], padded as in its LoraLayout
  const void* b = nullptr;           // lora_b_elements() elements; for kPanels from pack_lora_b()
  float scale = 1.0f;                // of A x
  const float* bias = nullptr;       // [num_outputs] or null: added without scale or gain
  const float* gain = nullptr;       // [num_outputs] or null: 1
  const float* base_gain = nullptr;  // [num_outputs] or null: 0; factors of LoraSegment::base
};

// The rows of one adapter.
struct LoraSegment {
  std::span<const int32_t> rows = {};  // row numbers in x and y, ascending, none in two segments
  std::span<const LoraPart> parts = {};
  // For parts with base_gain: row i of it is for row rows[i] of y.
  const float* base = nullptr;  // [rows.size(), base_stride]
  int64_t base_stride = 0;
};

struct LoraParams {
  ConstActivations x = nullptr;  // [M, K]
  int64_t x_stride = 0;          // elements between rows
  int64_t k = 0;                 // K
  std::span<const LoraSegment> segments = {};
  DType dtype = DType::kBF16;  // of A and B: f32, bf16 or f16
  Activations y = nullptr;     // [M, N], may not be x
  int64_t y_stride = 0;
  float* workspace = nullptr;  // lora_workspace_floats() floats
};
void apply_lora(Stream& stream, const LoraParams& params);

// Returns the floats of LoraParams::workspace for segments of `num_rows` rows in all, where the
// ranks of a segment's parts sum to at most `max_ranks`.
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
// Packs B from `rows`, the order of files, [num_outputs, r] elements of `bytes_per_element` bytes
// each, to LoraLayout::kPanels in `packed`. Any thread may call it.
void pack_lora_b(const void* rows, int64_t num_outputs, int64_t rank, int64_t bytes_per_element,
                 void* packed);

// On a GPU two ops compute the update: shrink_lora() computes A x, which does not need the linear
// op, and expand_lora() adds B (A x) to that op's outputs. They read on the device which row has
// which adapter, so that one captured graph works for every batch and for any adapters in the
// slots. A and B are bf16 in LoraLayout::kRows.
struct LoraSlotsParams {
  ConstActivations x = nullptr;  // [M, K], bf16
  int64_t x_stride = 0;
  int64_t k = 0;
  // On the device: the parts of slot 0. Those of slot s are s * slot_stride parts further on. A
  // part with num_outputs 0 changes nothing.
  const LoraPart* parts = nullptr;
  int64_t slot_stride = 0;
  int32_t num_parts = 0;
  int64_t max_rank = 0;             // the largest of any part; a multiple of kLoraVector
  const int32_t* slots = nullptr;   // per token of the batch; -1: no adapter
  const int32_t* tokens = nullptr;  // [M]: row i has the slot of tokens[i]; null: of token i
  // [M]: the rows that have a slot, grouped by slot, and then -1. Null: all rows in ascending
  // order. It changes the time of a step and no bits.
  const int32_t* order = nullptr;
  int64_t num_rows = 0;  // M
  Activations y = nullptr;
  int64_t y_stride = 0;
  int64_t num_outputs = 0;  // N
  // lora_workspace_floats(M, num_parts * max_rank) floats, which shrink_lora() fills.
  float* workspace = nullptr;
  // [M, base_stride]: the rows that base_gain multiplies. When it is null, only parts without
  // base_gain are added; otherwise only parts with it.
  const float* base = nullptr;
  int64_t base_stride = 0;
};
void shrink_lora(Stream& stream, const LoraSlotsParams& params);
void expand_lora(Stream& stream, const LoraSlotsParams& params);

}  // namespace quire
