// linear() uses, for dense weights, a kernel of Quire's own on Hopper, and elsewhere cuBLASLt, or
// another kernel of Quire's own where that measures faster for a few rows. FP8 products use
// cuBLASLt or, with scales of groups of inputs, a kernel of Quire's own, as do int8 products.
// Operands that are not aligned to 16 bytes use a plain kernel. All other quantized weights use a
// kernel of Quire's own.
#include <cuda_runtime_api.h>

#include "device/cuda/current_device.h"
#include "device/cuda/error.h"
#include "kernels/cuda/linear/dense_linear.h"
#include "kernels/cuda/linear/eight_bit_linear.h"
#include "kernels/cuda/linear/few_rows_linear.h"
#include "kernels/cuda/linear/fp8_linear.h"
#include "kernels/cuda/linear/int8_linear.h"
#include "kernels/cuda/linear/library/lt_products.h"
#include "kernels/cuda/linear/place_bias.h"
#include "kernels/cuda/linear/plain_linear.h"
#include "kernels/cuda/linear/weight_rows.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/quant/quant_weight.h"

namespace quire::cuda {
namespace {

// Opens the library when it is first used.
Result<LtProducts*> products_of(GpuStream& stream) {
  if (stream.library_state() == nullptr) {
    QUIRE_ASSIGN_OR_RETURN(stream.library_state(), LtProducts::open(stream));
  }
  return static_cast<LtProducts*>(stream.library_state().get());
}

MatmulKey key_of(const GpuStream& stream, const LinearParams& p) {
  const WeightSpec& spec = p.weight->spec;
  const bool is_fp8 = has_fp8_products(spec);
  return {.n = spec.n,
          .k = spec.k,
          .rows = algorithm_rows(p.num_rows, stream.deterministic()),
          .x_stride = is_fp8 ? spec.k : p.x_stride,
          .y_stride = p.y_stride,
          .y_type = p.y.dtype(),
          .has_bias = p.bias != nullptr,
          .accumulates = p.accumulate,
          .deterministic = stream.deterministic(),
          .is_fp8 = is_fp8};
}

Status multiply(GpuStream& stream, const LinearParams& p) {
  const WeightSpec& spec = p.weight->spec;
  const LtMemory memory = lt_memory(p.workspace);
  LtOperands operands{.weight = p.weight->data,
                      .x = p.x.data(),
                      .bias = p.bias,
                      .y = p.y.data(),
                      .workspace = memory.workspace,
                      .num_rows = p.num_rows};
  if (has_fp8_products(spec)) {
    const Fp8Rows x = fp8_rows(memory.rows, p.num_rows, spec.k);
    quantize_rows(stream, p.x, p.x_stride, p.num_rows, spec.k, x);
    operands.x = x.codes;
    operands.x_scales = x.scales;
    operands.weight_scales = reinterpret_cast<const float*>(
        static_cast<const std::byte*>(p.weight->data) + fp8_weight_layout(spec).scales_at);
  }
  QUIRE_ASSIGN_OR_RETURN(LtProducts * products, products_of(stream));
  LtProducts::OtherKernel few_rows;
  if (!stream.deterministic() && fits_few_rows(p)) {
    few_rows = [&](void* y) {
      LinearParams to = p;
      to.y = Activations(y, p.y.dtype());
      few_rows_linear(stream, to);
    };
  }
  return products->run(stream, key_of(stream, p), operands, few_rows,
                       [&] { place_bias(stream, p); });
}

}  // namespace

void linear(Stream& stream, const LinearParams& params) {
  const WeightSpec& spec = params.weight->spec;
  if (params.num_rows == 0 || spec.n == 0) return;
  QUIRE_CHECK(params.greatest == nullptr, "[linear] a GPU keeps all {} outputs", spec.n);
  GpuStream& queue = static_cast<GpuStream&>(stream);
  if (fits_eight_bit_linear(queue, spec)) return eight_bit_linear(stream, params);
  if (has_int8_products(spec)) return int8_linear(stream, params);
  const bool by_library = !spec.quant.is_quantized() || has_fp8_products(spec);
  if (!by_library) return quant_linear(stream, params);
  QUIRE_CHECK(params.x.dtype() == DType::kBF16, "[linear] a GPU wants bf16 inputs, got {}",
              to_string(params.x.dtype()));
  QUIRE_CHECK(spec.quant.is_quantized() || spec.dtype == DType::kBF16,
              "[linear] a GPU wants bf16 weights, got {}", to_string(spec.dtype));
  if (fits_dense_linear(queue, params)) return dense_linear(stream, params);
  QUIRE_CHECK(params.gate == nullptr, "[linear] no gate for {} outputs", spec.n);
  if (!are_operands_aligned(params)) return plain_linear(stream, params);
  use_device_of(queue);
  queue.fail(multiply(queue, params));
}

bool linear_gates(const Stream& stream, const WeightSpec& spec) {
  const auto& queue = static_cast<const GpuStream&>(stream);
  return gates_dense_linear(queue, spec) || gates_eight_bit_linear(queue, spec);
}

// Checks every kind of product with the weight: results of both types, few rows and many.
bool supports_fp8_products(Stream& stream, const WeightSpec& spec) {
  GpuStream& queue = static_cast<GpuStream&>(stream);
  if (queue.info().compute_capability != 90 || !fits_fp8_products(spec)) return false;
  if (has_fp8_groups(spec)) return true;  // they need no library
  use_device_of(queue);
  const Result<LtProducts*> products = products_of(queue);
  if (!products.ok()) return false;
  for (const DType y_type : {DType::kBF16, DType::kF32}) {
    for (const int64_t rows : {int64_t{1}, int64_t{16}, kDeterministicRows, int64_t{2048}}) {
      const MatmulKey key{.n = spec.n,
                          .k = spec.k,
                          .rows = rows,
                          .x_stride = spec.k,
                          .y_stride = spec.n,
                          .y_type = y_type,
                          .accumulates = y_type == DType::kF32,
                          .deterministic = queue.deterministic(),
                          .is_fp8 = true};
      if (!(*products)->supports(key)) return false;
    }
  }
  return true;
}

int64_t linear_workspace_bytes(const Stream& /*stream*/, int64_t max_rows, const WeightSpec& spec) {
  const int64_t rows = fp8_rows_bytes(max_rows, spec.k, fp8_groups(spec));
  if (has_fp8_groups(spec) || has_int8_products(spec)) return rows;
  if (has_fp8_products(spec)) return lt_memory_bytes(rows);
  return spec.quant.is_quantized() ? quant_workspace_bytes(max_rows, spec) : lt_memory_bytes(0);
}

void pack_weight_rows(Stream& stream, const PackedWeight& weight, const WeightRows& rows) {
  GpuStream& queue = static_cast<GpuStream&>(stream);
  use_device_of(queue);
  for_each_piece(weight, rows, [&](int64_t offset, const void* data, int64_t num_bytes) {
    // `data` is pageable memory, so the call returns only when it has been read.
    queue.fail(to_status(cudaMemcpyAsync(static_cast<uint8_t*>(weight.data) + offset, data,
                                         static_cast<size_t>(num_bytes), cudaMemcpyHostToDevice,
                                         static_cast<cudaStream_t>(queue.handle())),
                         "uploading weights"));
  });
}

}  // namespace quire::cuda
