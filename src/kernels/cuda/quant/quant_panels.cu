// Arranges inputs in the order in which products with quantized weights read them.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/quant/quant_args.h"

namespace quire::cuda {
namespace {

constexpr int kThreads = 256;
using Eight = Elements<4, uint32_t>;  // bf16

// A thread arranges 8 inputs of a row, in the weight's order of columns.
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 1)
    arrange_rows_kernel(const QuantLinearArgs args, const int32_t* order, const int64_t k,
                        bfloat16* rows) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const int64_t width = args.layout.num_chunks * kQuantTileInputs;
  const int64_t at = (int64_t{ptx::block_index()} * kThreads + ptx::thread_index()) * 8;
  const int64_t row = at / width;
  if (row >= args.num_rows) return;
  const bfloat16* from = args.x + row * args.x_stride;
  const auto element = [&](int64_t i) -> uint32_t {
    if (i >= k) return 0;
    return from[order == nullptr ? i : order[i]].bits;
  };
  Eight eight;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int64_t input = at % width + 2 * i;
    eight.at[i] = element(input + 1) << 16 | element(input);
  }
  *reinterpret_cast<Eight*>(rows + at) = eight;
}

// A thread arranges 32 inputs of a row, which two products use (quant_weight.h). Rows past the end
// are zeros.
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 1)
    arrange_panels_kernel(const QuantLinearArgs args, int panel_rows, uint8_t* panels) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const auto chunks = static_cast<int>(args.layout.num_chunks);
  const int at = ptx::block_index() * kThreads + ptx::thread_index();
  const int row = at / (chunks * 2);
  const int unit = at % (chunks * 2);
  if (row >= padded_to(panel_rows, args.num_rows)) return;
  Eight lanes[4] = {};  // by lane of a quad: what it multiplies
  if (row < args.num_rows) {
#pragma unroll
    for (int t = 0; t < 4; ++t)
      lanes[t] = *reinterpret_cast<const Eight*>(args.x + row * args.x_stride +
                                                 unit * kQuantUnitInputs + t * 8);
  }
  uint8_t* panel =
      panels + int64_t{row / panel_rows * chunks + unit / 2} * panel_rows * kPanelRowBytes;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const Eight part = {{lanes[0].at[i], lanes[1].at[i], lanes[2].at[i], lanes[3].at[i]}};
    const int to = panel_offset(row % panel_rows, unit % 2 * 4 + i, panel_rows);
    *reinterpret_cast<Eight*>(panel + to) = part;
  }
}

int64_t blocks_of(int64_t threads) { return (threads + kThreads - 1) / kThreads; }

}  // namespace

void arrange_rows(Stream& stream, const QuantLinearArgs& args, const WeightSpec& spec,
                  bfloat16* rows) {
  const int32_t* order = spec.quant.has_column_order
                             ? reinterpret_cast<const int32_t*>(args.weight + args.layout.order_at)
                             : nullptr;
  const int64_t eights = args.num_rows * args.layout.num_chunks * kQuantTileInputs / 8;
  launch<arrange_rows_kernel>(stream, {.num_blocks = blocks_of(eights), .num_threads = kThreads},
                              args, order, spec.k, rows);
}

void arrange_panels(Stream& stream, const QuantLinearArgs& args, int panel_rows, uint8_t* panels) {
  const int64_t units = padded_to(panel_rows, args.num_rows) * args.layout.num_chunks * 2;
  launch<arrange_panels_kernel>(stream, {.num_blocks = blocks_of(units), .num_threads = kThreads},
                                args, panel_rows, panels);
}

}  // namespace quire::cuda
