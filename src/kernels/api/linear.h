// linear() computes y = x W^T. W is packed once, when a model is loaded.
//
//   const int64_t bytes = packed_weight_bytes(spec);
//   PackedWeight w{spec, arena.allocate_bytes(bytes)};
//   // A fused qkv weight is packed part by part:
//   pack_weight_rows(stream, w, {.rows = q_proj, .first_row = 0, .num_rows = Nq});
//   pack_weight_rows(stream, w, {.rows = k_proj, .first_row = Nq, .num_rows = Nk}); …
//   linear(stream, {.x = x, .weight = &w, .y = y, …, .num_rows = T});
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "device/stream.h"
#include "kernels/api/activation.h"
#include "kernels/api/quant_spec.h"
#include "tensor/activations.h"

namespace quire {

// kF32: activations stay float. kBF16: activations are rounded to bf16 on entry, and products
// accumulate in float. kInt8: each row of activations is rounded to int8 with a scale of its own,
// max|x| / 127; the sums of products are exact and then scaled in float, and a row with an infinity
// or NaN gives NaN. A dense weight has kInt8 if and only if its dtype is kI8.
enum class ComputeType : uint8_t { kF32, kBF16, kInt8 };

// The most inputs of an int8 weight, so that its sums of products fit in 32 bits.
inline constexpr int64_t kMaxInt8K = 1 << 17;

struct WeightSpec {
  int64_t n = 0;               // outputs
  int64_t k = 0;               // inputs
  DType dtype = DType::kBF16;  // stored: f32, bf16, f16, or int8 with a scale per output
  ComputeType compute = ComputeType::kF32;
  // For a quantized weight, which api/quant.h packs; `dtype` is then unused on CPUs. GPUs have a
  // meaning for it in cuda/linear/fp8_linear.h.
  QuantSpec quant = {};
};

// Borrowed memory of packed_weight_bytes(spec) bytes, 64-byte aligned, in the layout that the
// kernels read (cpu/linear/README.md).
struct PackedWeight {
  WeightSpec spec;
  void* data = nullptr;
};

int64_t packed_weight_bytes(const WeightSpec& spec);

// Rows [first_row, first_row + num_rows) of W, given as a dense row-major matrix. With `transposed`
// the source is [K, num_rows] (GPT-2's Conv1D) and is read column by column.
struct WeightRows {
  const void* rows = nullptr;  // [num_rows, K], or [K, num_rows] when transposed
  // Rows of another type than the packed one are converted; to int8 they are rounded, each row with
  // the scale max|w| / 127.
  DType dtype = DType::kBF16;
  int64_t first_row = 0;
  int64_t num_rows = 0;
  bool transposed = false;
  const float* scales = nullptr;  // [num_rows], when `dtype` is int8
};
void pack_weight_rows(Stream& stream, const PackedWeight& weight, const WeightRows& rows);

// The greatest output of a row.
struct RowGreatest {
  float value = 0.0f;
  int32_t column = -1;     // the first of equal ones; -1: no column was read, or none is allowed
  bool all_finite = true;  // of all columns, allowed or not
};

// For a product whose outputs are [gate | up]: linear() stores only y = activation(gate) * up.
struct LinearGate {
  Activation activation = Activation::kSilu;
  float* scratch = nullptr;  // [M, N], most of which is never touched
};
// Returns whether linear() can apply a LinearGate to products of this weight.
bool linear_gates(const Stream& stream, const WeightSpec& spec);

// y[m, n] = (accumulate ? y[m, n] : 0) + bias[n] + sum_k x[m, k] W[n, k]. Each output is reduced
// over k in one order fixed by the weight alone (law L4).
struct LinearParams {
  ConstActivations x = nullptr;  // [M, K]
  int64_t x_stride = 0;          // elements between rows
  const PackedWeight* weight = nullptr;
  const float* bias = nullptr;  // [N] or null
  Activations y = nullptr;      // [M, N]
  int64_t y_stride = 0;
  bool accumulate = false;    // for the residual add
  int64_t num_rows = 0;       // M
  void* workspace = nullptr;  // linear_workspace_bytes() bytes
  // [threads, M] or null: linear() stores only the greatest output of each row, in the first M of
  // these. `y` is then scratch of [M, N], most of which is never touched. CPU only; not with
  // `accumulate`.
  RowGreatest* greatest = nullptr;
  // [M] or null, with `greatest`: the mask of each row, or null for a row that allows all columns.
  // The greatest is chosen among the columns n whose bit, n % 32 of word n / 32, is 1.
  const uint32_t* const* allowed = nullptr;
  // Null, or a gate, with which y is [M, N / 2]. linear_gates() must be true, and there must be no
  // `accumulate` or `greatest`.
  const LinearGate* gate = nullptr;
};
void linear(Stream& stream, const LinearParams& params);

int64_t linear_workspace_bytes(const Stream& stream, int64_t max_rows, const WeightSpec& spec);

}  // namespace quire
