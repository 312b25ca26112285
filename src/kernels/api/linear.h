// y = x W^T with W prepacked once at load.
//
//   const int64_t bytes = packed_weight_bytes(spec);
//   PackedWeight w{spec, arena.allocate_bytes(bytes)};
//   pack_weight_rows(w, {.rows = q_proj, .dtype = DType::kBF16, .first_row = 0, .num_rows = Nq});
//   // fused qkv: part pack_weight_rows(w, {.rows = k_proj, …, .first_row = Nq, .num_rows = Nk});
//   // by part linear(stream, {.x = x, .weight = &w, .y = y, .num_rows = T});
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "device/stream.h"
#include "kernels/api/activation.h"
#include "kernels/api/quant_spec.h"
#include "tensor/activations.h"

namespace quire {

// kF32: activations stay float. kBF16: activations are rounded to bf16 on entry, products
// accumulate in float. kInt8: each row of activations is rounded to int8 with a scale of its own,
// max|x| / 127; sums of products are exact, then scaled in float (a row with an infinity or NaN
// gives NaN). kInt8 goes with DType::kI8, and only with it.
enum class ComputeType : uint8_t { kF32, kBF16, kInt8 };

// Inputs of an int8 weight: sums of so many products fit 32 bits.
inline constexpr int64_t kMaxInt8K = 1 << 17;

struct WeightSpec {
  int64_t n = 0;               // outputs
  int64_t k = 0;               // inputs
  DType dtype = DType::kBF16;  // stored: f32, bf16, f16, or int8 with a scale per output
  ComputeType compute = ComputeType::kF32;
  // When quantized, it takes the place of `dtype`, and api/quant.h packs the weight.
  QuantSpec quant = {};
};

// Borrowed memory of packed_weight_bytes(spec), 64-byte aligned, in the layout of the kernels
// (kernels/README.md).
struct PackedWeight {
  WeightSpec spec;
  void* data = nullptr;
};

int64_t packed_weight_bytes(const WeightSpec& spec);

// Rows [first_row, first_row + num_rows) of W from a dense row-major matrix. With `transposed` the
// source is [K, num_rows] (GPT-2's Conv1D) and is read column by column.
struct WeightRows {
  const void* rows = nullptr;  // [num_rows, K], or [K, num_rows] when transposed
  DType dtype = DType::kBF16;  // converted to the packed type when it differs (to int8: rounded
                               // with the scale max|w| / 127 of each row)
  int64_t first_row = 0;
  int64_t num_rows = 0;
  bool transposed = false;
  const float* scales = nullptr;  // [num_rows], of int8 rows
};
void pack_weight_rows(Stream& stream, const PackedWeight& weight, const WeightRows& rows);

// Of a row of outputs.
struct RowGreatest {
  float value = 0.0f;
  int32_t column = -1;  // of the first of equals; -1: none looked at, or none allowed
  bool all_finite = true;
};

// A product whose outputs are [gate | up]: only y = activation(gate) * up is kept.
struct LinearGate {
  Activation activation = Activation::kSilu;
  float* scratch = nullptr;  // [M, N], most of it not touched
};
// Whether linear() gates products by this weight.
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
  bool accumulate = false;    // the residual add
  int64_t num_rows = 0;       // M
  void* workspace = nullptr;  // linear_workspace_bytes() bytes
  // Not null: outputs are not kept, only the greatest of each row, in the first M of [threads, M].
  // `y` is [M, N] of scratch then, most of it not touched. CPU only; not with `accumulate`.
  RowGreatest* greatest = nullptr;
  // Not null: [M] rows of bits, or null for one that allows all. The greatest is of the columns whose
  // bit is 1, bit n % 32 of word n / 32; all of them say whether all are finite.
  const uint32_t* const* allowed = nullptr;
  // Not null: y is [M, N / 2]. Where linear_gates(), not with `accumulate` or `greatest`.
  const LinearGate* gate = nullptr;
};
void linear(Stream& stream, const LinearParams& params);

int64_t linear_workspace_bytes(const Stream& stream, int64_t max_rows, const WeightSpec& spec);

}  // namespace quire
