// y = x W^T of quantized weights for few rows. A block takes tiles of some outputs and rows one
// after another; each of its eight warps sums a slice of K, and the slices are added in order at
// the end. If it takes few instructions, its time is that of reading the codes once.
#include <algorithm>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/linear_output.h"
#include "kernels/cuda/quant/slice_sums.h"

namespace quire::cuda {
namespace {

constexpr int kThreads = kQuantSlices * 32;                // a warp per slice
constexpr int64_t kMostArrangedBytes = int64_t{16} << 20;  // of rows that go through the workspace
constexpr int64_t kMostSumBytes = int64_t{32} << 20;

template <CodeKind kCode, bool kHasMins, int kOutTiles, int kRowTiles, int kStages>
struct BlockMemory {
  // Sizes of each warp.
  static constexpr int kRing = QuantStream<kCode, kHasMins, kOutTiles, kStages>::kRingBytes;
  static constexpr int kSums = kOutTiles * kRowTiles * 4;  // of each lane
  static constexpr int kMeeting = kQuantSlices * kSums * 32 * int{sizeof(float)};
  static constexpr int kBytes = kQuantSlices * kRing + 2 * kMeeting;
};

template <CodeKind kCode, bool kHasMins, int kOutTiles, int kRowTiles, int kStages, int kBlocks>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, kBlocks) quant_linear_kernel(const QuantLinearArgs args) {
  using Memory = BlockMemory<kCode, kHasMins, kOutTiles, kRowTiles, kStages>;
  const QuantItems items(args, kOutTiles, kRowTiles * 8);
  const int warp = ptx::thread_index() / 32;
  const int lane = ptx::thread_index() % 32;
  uint8_t* memory = ptx::shared_memory();
  const int64_t chunks = args.layout.num_chunks;
  SliceSums<kCode, kHasMins, kOutTiles, kRowTiles, kStages> sums(
      args, items, slice_begin(chunks, warp), slice_begin(chunks, warp + 1),
      memory + warp * Memory::kRing);
  ptx::wait_for_previous_kernel();  // x, and y if it accumulates
  ptx::let_next_kernel_start();
  int which = 0;  // alternates between two places for sums, so that an item needs one wait
  for (int item = items.first(); item < items.count; item += items.step()) {
    sums.sum_item(item);
    auto* meeting =
        reinterpret_cast<float*>(memory + kQuantSlices * Memory::kRing + which * Memory::kMeeting);
    which ^= 1;
#pragma unroll
    for (int at = 0; at < Memory::kSums; ++at)
      meeting[(warp * Memory::kSums + at) * 32 + lane] =
          sums.total(at / 4 / kRowTiles, at / 4 % kRowTiles, at % 4);
    ptx::sync_threads();
    for (int at = warp; at < Memory::kSums; at += kQuantSlices) {
      float sum = meeting[at * 32 + lane];
#pragma unroll
      for (int slice = 1; slice < kQuantSlices; ++slice)
        sum = ptx::add(sum, meeting[(slice * Memory::kSums + at) * 32 + lane]);
      const int i = at % 4;
      const int row =
          (items.row_block(item) * kRowTiles + at / 4 % kRowTiles) * 8 + lane % 4 * 2 + i % 2;
      const int tile = items.first_tile(item) + at / 4 / kRowTiles;
      store_output(args, row, tile * 16 + lane / 4 + i / 2 * 8, sum);
    }
  }
}

template <CodeKind kCode, bool kHasMins, int kOutTiles, int kRowTiles>
void launch_shape(Stream& stream, const QuantLinearArgs& args) {
  // Blocks that run on an SM at once, and the stages that each of their warps has in flight.
  constexpr int kBlocks = kOutTiles * kRowTiles * (kHasMins ? 2 : 1) >= 8 ? 1 : 2;
  constexpr int kStages = kOutTiles == 1 ? (is_4_bit(kCode) ? 8 : 5) : (is_4_bit(kCode) ? 4 : 3);
  constexpr int64_t kBytes = BlockMemory<kCode, kHasMins, kOutTiles, kRowTiles, kStages>::kBytes;
  const int64_t resident = resident_blocks(gpu(stream).info(), kBytes, kBlocks);
  const int64_t num_items = QuantItems(args, kOutTiles, kRowTiles * 8).count;
  launch<quant_linear_kernel<kCode, kHasMins, kOutTiles, kRowTiles, kStages, kBlocks>>(
      stream,
      {.num_blocks = blocks_for(gpu(stream), num_items, 1, resident),
       .num_threads = kThreads,
       .shared_bytes = kBytes},
      args);
}

// Shapes of a block differ in speed only.
template <CodeKind kCode, bool kHasMins = false>
void launch_code(Stream& stream, const QuantLinearArgs& args) {
  if (args.num_rows <= 8) return launch_shape<kCode, kHasMins, 2, 1>(stream, args);
  if (args.num_rows <= 16) return launch_shape<kCode, kHasMins, 2, 2>(stream, args);
  launch_shape<kCode, kHasMins, 1, 4>(stream, args);
}

void few_rows(Stream& stream, const QuantLinearArgs& args, const QuantSpec& quant) {
  if (quant.codebook == Codebook::kE2M1) return launch_code<CodeKind::kFp4>(stream, args);
  if (quant.codebook == Codebook::kE4M3) return launch_code<CodeKind::kFp8>(stream, args);
  const bool has_mins = quant.zero_kind == ZeroKind::kMin;
  if (quant.bits == 4) {
    return has_mins ? launch_code<CodeKind::kInt4, true>(stream, args)
                    : launch_code<CodeKind::kInt4>(stream, args);
  }
  has_mins ? launch_code<CodeKind::kInt8, true>(stream, args)
           : launch_code<CodeKind::kInt8>(stream, args);
}

QuantLinearArgs args_of(const LinearParams& p) {
  const WeightSpec& spec = p.weight->spec;
  const QuantWeightLayout layout = quant_weight_layout(spec);
  return {.x = static_cast<const bfloat16*>(p.x.data()),
          .x_stride = p.x_stride,
          .weight = static_cast<const uint8_t*>(p.weight->data),
          .layout = layout,
          .chunks_per_group = layout.chunks_per_group(),
          .has_zeros = spec.quant.zero_kind == ZeroKind::kInteger,
          .zero = spec.quant.offset,
          .n = spec.n,
          .num_rows = p.num_rows,
          .bias = p.bias,
          .y = p.y.data(),
          .y_stride = p.y_stride,
          .y_is_float = p.y.dtype() == DType::kF32,
          .accumulate = p.accumulate};
}

// Returns whether x can be read in place.
bool is_plain(const LinearParams& p) {
  const WeightSpec& spec = p.weight->spec;
  return !spec.quant.has_column_order && spec.k % kQuantTileInputs == 0 && p.x_stride % 8 == 0 &&
         reinterpret_cast<uintptr_t>(p.x.data()) % 16 == 0;
}

// Returns the part of the product for these rows.
QuantLinearArgs rows_of(const QuantLinearArgs& args, int64_t first, int64_t count) {
  QuantLinearArgs part = args;
  part.x += first * args.x_stride;
  part.num_rows = count;
  part.y = static_cast<std::byte*>(args.y) + first * args.y_stride * (args.y_is_float ? 4 : 2);
  return part;
}

int64_t row_bytes(const QuantWeightLayout& layout) {
  return layout.num_chunks * kQuantTileInputs * int64_t{sizeof(bfloat16)};
}
// Returns how many rows go through the workspace at a time.
int64_t rows_at_a_time(const QuantWeightLayout& layout) {
  return std::max<int64_t>(1, kMostArrangedBytes / row_bytes(layout) / kPanelRows) * kPanelRows;
}
// Returns the bytes of these rows in an order that kernels can read, or in panels.
int64_t arranged_bytes(int64_t num_rows, const QuantWeightLayout& layout) {
  return padded_to(kPanelRows, num_rows) * row_bytes(layout);
}

bool goes_by_panels(const Stream& stream, const QuantLinearArgs& args, const QuantSpec& quant) {
  return gpu(stream).info().compute_capability == 90 && quant_panel_rows(args.num_rows) > 0 &&
         quant.zero_kind != ZeroKind::kMin;
}

void multiply_rows(Stream& stream, QuantLinearArgs args, const LinearParams& p) {
  const WeightSpec& spec = p.weight->spec;
  auto* arranged = static_cast<uint8_t*>(p.workspace);
  if (!is_plain(p)) {
    auto* rows = reinterpret_cast<bfloat16*>(arranged);
    arrange_rows(stream, args, spec, rows);
    args.x = rows;
    args.x_stride = args.layout.num_chunks * kQuantTileInputs;
    arranged += arranged_bytes(args.num_rows, args.layout);
  }
  if (!goes_by_panels(stream, args, spec.quant)) return few_rows(stream, args, spec.quant);
  uint8_t* sums = arranged + arranged_bytes(args.num_rows, args.layout);
  quant_many_rows(stream, args, spec.quant,
                  {arranged, reinterpret_cast<float*>(sums), kMostSumBytes});
}

}  // namespace

int64_t quant_workspace_bytes(int64_t max_rows, const WeightSpec& spec) {
  const QuantWeightLayout layout = quant_weight_layout(spec);
  const int64_t rows = std::min(max_rows, rows_at_a_time(layout));
  const int64_t sums = kQuantSlices * padded_to(kPanelRows, rows) *
                       padded_to(kMostPanelTiles * kQuantTileOutputs, spec.n) *
                       int64_t{sizeof(float)};
  return 2 * arranged_bytes(rows, layout) + std::min(sums, kMostSumBytes);
}

void quant_linear(Stream& stream, const LinearParams& p) {
  if (p.num_rows == 0 || p.weight->spec.n == 0) return;
  QUIRE_CHECK(p.x.dtype() == DType::kBF16, "[linear] a GPU wants bf16 inputs, got {}",
              to_string(p.x.dtype()));
  const QuantLinearArgs args = args_of(p);
  const int64_t most = rows_at_a_time(args.layout);
  for (int64_t first = 0; first < p.num_rows; first += most)
    multiply_rows(stream, rows_of(args, first, std::min(most, p.num_rows - first)), p);
}

}  // namespace quire::cuda
