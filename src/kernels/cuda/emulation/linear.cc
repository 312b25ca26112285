// Emulates cuBLASLt: bf16 products, with float sums over k in ascending order. Gated products use
// the kernel that a GPU runs, since the library has none.
#include <cstring>

#include "kernels/cuda/emulation/ops.h"
#include "kernels/cuda/float8.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/linear/dense_linear.h"
#include "kernels/cuda/linear/eight_bit_linear.h"
#include "kernels/cuda/linear/fp8_linear.h"
#include "kernels/cuda/linear/int8_linear.h"
#include "kernels/cuda/linear/weight_rows.h"
#include "kernels/cuda/op_table.h"
#include "kernels/cuda/quant/quant_weight.h"

namespace quire {
namespace cuda {
namespace {

void store(const LinearParams& p, int64_t row, int64_t output, float sum) {
  if (p.bias != nullptr) sum += p.bias[output];
  const int64_t at = row * p.y_stride + output;
  if (p.y.dtype() == DType::kF32) {
    float& y = static_cast<float*>(p.y.data())[at];
    y = p.accumulate ? y + sum : sum;
  } else {
    auto& y = static_cast<bfloat16*>(p.y.data())[at];
    y = to_bfloat16(p.accumulate ? to_float(y) + sum : sum);
  }
}

void multiply(const LinearParams& p, const WeightSpec& spec, const bfloat16* weight) {
  const auto* x = static_cast<const bfloat16*>(p.x.data());
  for (int64_t m = 0; m < p.num_rows; ++m) {
    for (int64_t n = 0; n < spec.n; ++n) {
      float sum = 0.0f;
      for (int64_t k = 0; k < spec.k; ++k)
        sum += to_float(x[m * p.x_stride + k]) * to_float(weight[n * spec.k + k]);
      store(p, m, n, sum);
    }
  }
}

void multiply_fp8(const LinearParams& p, const WeightSpec& spec, const uint8_t* weight,
                  const Fp8Rows& x) {
  const auto* scales = reinterpret_cast<const float*>(weight + fp8_weight_layout(spec).scales_at);
  for (int64_t m = 0; m < p.num_rows; ++m) {
    for (int64_t n = 0; n < spec.n; ++n) {
      float sum = 0.0f;
      for (int64_t k = 0; k < spec.k; ++k)
        sum += widen_e4m3(x.codes[m * spec.k + k]) * widen_e4m3(weight[n * spec.k + k]);
      store(p, m, n, sum * x.scales[m] * scales[n]);
    }
  }
}

}  // namespace

void linear(Stream& stream, const LinearParams& params) {
  const WeightSpec spec = params.weight->spec;
  QUIRE_CHECK(params.x.dtype() == DType::kBF16, "[linear] a GPU wants bf16 inputs, got {}",
              to_string(params.x.dtype()));
  if (fits_eight_bit_linear(gpu(stream), spec)) return eight_bit_linear(stream, params);
  if (has_fp8_products(spec)) {
    const Fp8Rows x = fp8_rows(params.workspace, params.num_rows, spec.k);
    quantize_rows(stream, params.x, params.x_stride, params.num_rows, spec.k, x);
    const auto* weight = static_cast<const uint8_t*>(params.weight->data);
    gpu(stream).emulated()->push_back([=] { multiply_fp8(params, spec, weight, x); });
    return;
  }
  if (has_int8_products(spec)) return int8_linear(stream, params);
  if (spec.quant.is_quantized()) return quant_linear(stream, params);
  QUIRE_CHECK(spec.dtype == DType::kBF16, "[linear] a GPU wants bf16 weights, got {}",
              to_string(spec.dtype));
  if (params.gate != nullptr) return dense_linear(stream, params);
  const auto* weight = static_cast<const bfloat16*>(params.weight->data);
  gpu(stream).emulated()->push_back([=] { multiply(params, spec, weight); });
}

bool linear_gates(const Stream& stream, const WeightSpec& spec) {
  return gates_dense_linear(gpu(stream), spec) || gates_eight_bit_linear(gpu(stream), spec);
}

bool supports_fp8_products(Stream& stream, const WeightSpec& spec) {
  return gpu(stream).info().compute_capability == 90 && fits_fp8_products(spec);
}

int64_t linear_workspace_bytes(const Stream& /*stream*/, int64_t max_rows, const WeightSpec& spec) {
  if (has_fp8_products(spec) || has_int8_products(spec))
    return fp8_rows_bytes(max_rows, spec.k, fp8_groups(spec));
  return 64 + (spec.quant.is_quantized() ? quant_workspace_bytes(max_rows, spec) : 0);
}

void pack_weight_rows(Stream& /*stream*/, const PackedWeight& weight, const WeightRows& rows) {
  for_each_piece(weight, rows, [&](int64_t offset, const void* data, int64_t num_bytes) {
    std::memcpy(static_cast<uint8_t*>(weight.data) + offset, data, static_cast<size_t>(num_bytes));
  });
}

}  // namespace cuda

const OpTable& emulated_cuda_ops() { return cuda::kOpTable; }

}  // namespace quire
