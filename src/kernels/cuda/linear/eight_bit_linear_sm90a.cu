#include "kernels/cuda/linear/eight_bit_linear.h"
#include "kernels/cuda/linear/fp8_linear.h"
#include "kernels/cuda/linear/int8_linear.h"
#include "kernels/cuda/ring/ring_linear.h"

namespace quire::cuda {
namespace {

struct EightBitOperands {
  static constexpr const auto& kTileColumns = kEightBitTileColumns;

  static constexpr int most_blocks(int groups, int columns) {
    return most_eight_bit_blocks(groups, columns);
  }
  static TileShape tile_shape(int64_t num_rows, int64_t n, int32_t num_sms, bool is_gated) {
    return eight_bit_tile_shape(num_rows, n, num_sms, is_gated);
  }
};

// e4m3 codes with a scale for each group; a panel is one group.
struct E4M3Operands : EightBitOperands {
  using Sum = float;
  static constexpr bool kHasGroupScales = true;
  static constexpr bool kHasRowScales = false;

  template <int kTiles>
  QUIRE_DEVICE static void multiply(float (&d)[kTiles][4], uint64_t a, uint64_t b, bool adds) {
    ptx::multiply_e4m3_panels(d, a, b, adds);
  }
};
static_assert(kPanelRowBytes == kFp8GroupInputs);

struct Int8Operands : EightBitOperands {
  using Sum = int32_t;
  static constexpr bool kHasGroupScales = false;
  static constexpr bool kHasRowScales = true;

  template <int kTiles>
  QUIRE_DEVICE static void multiply(int32_t (&d)[kTiles][4], uint64_t a, uint64_t b, bool adds) {
    ptx::multiply_int8_panels(d, a, b, adds);
  }
};

// A tensor map counts two codes as one element.
MatrixMapShape codes_shape(const void* codes, int64_t rows, int64_t k) {
  return {.base = codes, .rows = rows, .columns = k / 2, .row_stride = k / 2};
}

}  // namespace

bool fits_eight_bit_linear(const GpuStream& stream, const WeightSpec& spec) {
  return stream.info().compute_capability == 90 &&
         (has_fp8_groups(spec) || has_int8_products(spec));
}

// The scales of the outputs that gates are multiplied with must also begin at a multiple of 16
// bytes.
bool gates_eight_bit_linear(const GpuStream& stream, const WeightSpec& spec) {
  return fits_eight_bit_linear(stream, spec) && spec.n % 16 == 0;
}

void eight_bit_linear(Stream& stream, const LinearParams& p) {
  const WeightSpec& spec = p.weight->spec;
  if (p.num_rows == 0 || spec.n == 0) return;
  QUIRE_CHECK(p.gate == nullptr ? fits_eight_bit_linear(gpu(stream), spec)
                                : gates_eight_bit_linear(gpu(stream), spec),
              "[eight_bit_linear] {} rows of [{}, {}]", p.num_rows, spec.n, spec.k);
  const bool is_fp8 = has_fp8_groups(spec);
  const Fp8Rows x = fp8_rows(p.workspace, p.num_rows, spec.k);
  is_fp8 ? quantize_groups(stream, p.x, p.x_stride, p.num_rows, spec.k, fp8_groups(spec), x)
         : quantize_int8_rows(stream, p.x, p.x_stride, p.num_rows, spec.k, x);
  const Fp8WeightLayout layout = fp8_weight_layout(spec);
  const auto* weight = static_cast<const uint8_t*>(p.weight->data);
  const RingProduct product{
      .output = ring_output(p),
      .x = codes_shape(x.codes, p.num_rows, spec.k),
      .weight = codes_shape(weight, spec.n, spec.k),
      .scales = {.x = x.scales,
                 .x_stride = x.scale_stride,
                 .weight = reinterpret_cast<const float*>(weight + layout.scales_at),
                 .weight_stride = layout.scale_stride}};
  is_fp8 ? ring_linear<E4M3Operands>(stream, p, product)
         : ring_linear<Int8Operands>(stream, p, product);
}

}  // namespace quire::cuda
