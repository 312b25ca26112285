// dense_linear(): bf16 products by warpgroups.
#include "kernels/cuda/linear/dense_linear.h"
#include "kernels/cuda/ring/ring_linear.h"

namespace quire::cuda {
namespace {

struct Bf16Operands {
  using Sum = float;
  static constexpr bool kHasGroupScales = false;
  static constexpr bool kHasRowScales = false;
  static constexpr const auto& kTileColumns = cuda::kTileColumns;

  static constexpr int most_blocks(int /*groups*/, int /*columns*/) { return 1; }
  static TileShape tile_shape(int64_t num_rows, int64_t n, int32_t num_sms, bool is_gated) {
    return dense_tile_shape(num_rows, n, num_sms, is_gated);
  }
  template <int kTiles>
  QUIRE_DEVICE static void multiply(float (&d)[kTiles][4], uint64_t a, uint64_t b, bool adds) {
    ptx::multiply_panels(d, a, b, adds);
  }
};

}  // namespace

bool gates_dense_linear(const GpuStream& stream, const WeightSpec& spec) {
  return stream.info().compute_capability == 90 && !spec.quant.is_quantized() &&
         spec.dtype == DType::kBF16 && spec.k > 0 && spec.k % 8 == 0;
}

bool fits_dense_linear(const GpuStream& stream, const LinearParams& p) {
  return gates_dense_linear(stream, p.weight->spec) && p.x.dtype() == DType::kBF16 &&
         p.x_stride % 8 == 0 && is_multiple_of_16(p.x.data()) && is_multiple_of_16(p.weight->data);
}

void dense_linear(Stream& stream, const LinearParams& p) {
  const WeightSpec& spec = p.weight->spec;
  if (p.num_rows == 0 || spec.n == 0) return;
  QUIRE_CHECK(fits_dense_linear(gpu(stream), p), "[dense_linear] {} rows of [{}, {}]", p.num_rows,
              spec.n, spec.k);
  ring_linear<Bf16Operands>(
      stream, p,
      {.output = ring_output(p),
       .x = {.base = p.x.data(), .rows = p.num_rows, .columns = spec.k, .row_stride = p.x_stride},
       .weight = {
           .base = p.weight->data, .rows = spec.n, .columns = spec.k, .row_stride = spec.k}});
}

}  // namespace quire::cuda
