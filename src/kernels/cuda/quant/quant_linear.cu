// y = x W^T of quantized weights for few rows: a block takes tiles of some outputs and rows one
// after another; each of its eight warps sums a slice of K, and the slices are added in order at the
// end. Bound by reading the codes once, if instructions are few.
#include <algorithm>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/linear_output.h"
#include "kernels/cuda/quant/quant_stream.h"

namespace quire::cuda {
namespace {

constexpr int kThreads = kQuantSlices * 32;                // a warp per slice
constexpr int64_t kMostArrangedBytes = int64_t{16} << 20;  // of rows that go through the workspace
constexpr int64_t kMostSumBytes = int64_t{32} << 20;

// What a lane has of a warp's inputs: of each row tile the operands of a unit's two products, or of
// a chunk's four where there are registers for them.
template <int kRowTiles>
class Inputs {
 public:
  static constexpr int kUnits = kRowTiles <= 2 ? 2 : 1;  // at a time

  // Begins at a chunk. Rows past the end are the last one, and nobody stores what they give.
  QUIRE_DEVICE Inputs(const QuantLinearArgs& args, int first_row, int chunk) {
    const int lane = ptx::thread_index() % 32;
    const auto last_row = static_cast<int>(args.num_rows) - 1;
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      const int row = first_row + r * 8 + lane / 4;
      from_[r] = args.x + (row < last_row ? row : last_row) * args.x_stride +
                 chunk * kQuantTileInputs + lane % 4 * 8;
    }
  }
  QUIRE_DEVICE void load() {
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int unit = 0; unit < kUnits; ++unit) {
        pairs_[r][unit] = *reinterpret_cast<const Elements<4, uint32_t>*>(from_[r] + at_ +
                                                                          unit * kQuantUnitInputs);
      }
    }
    at_ += kUnits * kQuantUnitInputs;
  }
  // Operand `half` (0 or 1) of product `j` of the chunk.
  QUIRE_DEVICE uint32_t at(int r, int j, int half) const {
    return pairs_[r][j / 2 % kUnits].at[j % 2 * 2 + half];
  }

 private:
  const bfloat16* from_[kRowTiles];
  int at_ = 0;
  Elements<4, uint32_t> pairs_[kRowTiles][kUnits];
};

// Sums of a warp's slice for 16 kOutTiles outputs and 8 kRowTiles rows. With minima the inputs of a
// group are summed too, by a product with ones.
template <CodeKind kCode, bool kHasMins, int kOutTiles, int kRowTiles, int kStages>
class SliceSums {
 public:
  using Stream = QuantStream<kCode, kHasMins, kOutTiles, kStages>;

  QUIRE_DEVICE SliceSums(const QuantLinearArgs& args, const QuantItems& items, int slice,
                         uint8_t* ring)
      : args_(args),
        items_(items),
        begin_(slice_begin(args.layout.num_chunks, slice)),
        end_(slice_begin(args.layout.num_chunks, slice + 1)),
        first_group_left_(chunks_of_first_group(args, begin_)),
        stream_(args, items, 0, begin_, end_, ring) {}

  QUIRE_DEVICE void sum_item(int item) {
    clear(total_);
    clear(partial_);
    clear(inputs_);
    const int per_group = args_.chunks_per_group;
    int group_left = first_group_left_;
    Inputs<kRowTiles> x(args_, items_.row_block(item) * kRowTiles * 8, begin_);
    if (begin_ < end_) x.load();
    for (int chunk = begin_; chunk < end_; ++chunk) {
      stream_.next();
      TileCodes<kCode> codes[kOutTiles];
#pragma unroll
      for (int o = 0; o < kOutTiles; ++o) codes[o] = stream_.codes(o);
      add_unit(codes, x, 0);
      if (per_group == 0) end_group(0);
      if constexpr (x.kUnits == 1) x.load();
      add_unit(codes, x, 1);
      if (chunk + 1 < end_) x.load();
      if (--group_left == 0 || chunk + 1 == end_) {
        end_group(per_group == 0 ? 1 : 0);
        group_left = per_group == 0 ? 1 : per_group;
      }
    }
  }

  // Of output tile o, row tile r, register i.
  QUIRE_DEVICE float total(int o, int r, int i) const { return total_[o][r][i]; }

 private:
  using Sums = float[kOutTiles][kRowTiles][4];
  using InputSums = float[1][kHasMins ? kRowTiles : 1][4];

  template <int kTiles, int kRows>
  QUIRE_DEVICE static void clear(float (&sums)[kTiles][kRows][4]) {
#pragma unroll
    for (auto& rows : sums)
#pragma unroll
      for (auto& tile : rows)
#pragma unroll
        for (float& x : tile) x = 0.0f;
  }

  QUIRE_DEVICE void add_unit(const TileCodes<kCode> (&codes)[kOutTiles], const Inputs<kRowTiles>& x,
                             int unit) {
    const int group = args_.chunks_per_group == 0 ? unit : 0;
#pragma unroll
    for (int o = 0; o < kOutTiles; ++o) {
      const TileZeros zeros = stream_.zeros(o, group);
#pragma unroll
      for (int j = 2 * unit; j < 2 * unit + 2; ++j) {
        uint32_t a[4];
        decode_product<kCode>(codes[o], zeros, j, a);
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r)
          ptx::multiply_tiles(partial_[o][r], a, x.at(r, j, 0), x.at(r, j, 1));
      }
    }
    if constexpr (kHasMins) {
      constexpr uint32_t kOnes[4] = {0x3f803f80u, 0x3f803f80u, 0x3f803f80u, 0x3f803f80u};
#pragma unroll
      for (int j = 2 * unit; j < 2 * unit + 2; ++j)
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r)
          ptx::multiply_tiles(inputs_[0][r], kOnes, x.at(r, j, 0), x.at(r, j, 1));
    }
  }

  // `group`: of the stage's one or two.
  QUIRE_DEVICE void end_group(int group) {
#pragma unroll
    for (int o = 0; o < kOutTiles; ++o) {
      const auto scales = stream_.scales(o, group);
      add_scaled(total_[o], partial_[o], scales.low, scales.high);
      if constexpr (kHasMins) {
        const auto mins = stream_.mins(o, group);
        add_scaled(total_[o], inputs_[0], -mins.low, -mins.high);
      }
    }
    clear(partial_);
    clear(inputs_);
  }
  QUIRE_DEVICE static void add_scaled(float (&total)[kRowTiles][4],
                                      const float (&sums)[kRowTiles][4], float low, float high) {
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        total[r][i] = ptx::multiply_add(sums[r][i], i < 2 ? low : high, total[r][i]);
  }

  const QuantLinearArgs& args_;
  const QuantItems& items_;
  int begin_;  // of the slice's chunks
  int end_;
  int first_group_left_;  // chunks
  Stream stream_;
  Sums partial_;      // of the group
  InputSums inputs_;  // of the group: of each row the same for every output
  Sums total_;
};

template <CodeKind kCode, bool kHasMins, int kOutTiles, int kRowTiles, int kStages>
struct BlockMemory {
  // Of a warp.
  static constexpr int kRing = QuantStream<kCode, kHasMins, kOutTiles, kStages>::kRingBytes;
  static constexpr int kSums = kOutTiles * kRowTiles * 4;  // of a lane
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
  SliceSums<kCode, kHasMins, kOutTiles, kRowTiles, kStages> sums(args, items, warp,
                                                                 memory + warp * Memory::kRing);
  ptx::wait_for_previous_kernel();  // x, and y where it is added to
  ptx::let_next_kernel_start();
  int which = 0;  // of two places where sums meet, so that one wait per item will do
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
  // Blocks on an SM at once, and what each of their warps has on its way.
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

// Shapes of a block differ in speed only. The largest has the registers and the shared memory of
// Hopper, but no registers for minima.
template <CodeKind kCode, bool kHasMins = false>
void launch_code(Stream& stream, const QuantLinearArgs& args) {
  if (args.num_rows <= 8) return launch_shape<kCode, kHasMins, 2, 1>(stream, args);
  if (args.num_rows <= 16) return launch_shape<kCode, kHasMins, 2, 2>(stream, args);
  if constexpr (!kHasMins) {
    if (args.num_rows > 32 && gpu(stream).info().compute_capability == 90)
      return launch_shape<kCode, false, 2, 8>(stream, args);
  }
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

// Whether x can be read where it is.
bool is_plain(const LinearParams& p) {
  const WeightSpec& spec = p.weight->spec;
  return !spec.quant.has_column_order && spec.k % kQuantTileInputs == 0 && p.x_stride % 8 == 0 &&
         reinterpret_cast<uintptr_t>(p.x.data()) % 16 == 0;
}

// The part of the product for these rows.
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
// How many rows go through the workspace at a time.
int64_t rows_at_a_time(const QuantWeightLayout& layout) {
  return std::max<int64_t>(1, kMostArrangedBytes / row_bytes(layout) / kPanelRows) * kPanelRows;
}
// Of the same rows in an order that kernels can read, or in panels.
int64_t arranged_bytes(int64_t num_rows, const QuantWeightLayout& layout) {
  return (num_rows + kPanelRows - 1) / kPanelRows * kPanelRows * row_bytes(layout);
}

bool goes_by_panels(const Stream& stream, const LinearParams& p) {
  return gpu(stream).info().compute_capability == 90 && p.num_rows > kMostFewQuantRows &&
         p.weight->spec.quant.zero_kind != ZeroKind::kMin;
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
  if (!goes_by_panels(stream, p)) return few_rows(stream, args, spec.quant);
  uint8_t* sums = arranged + arranged_bytes(args.num_rows, args.layout);
  quant_many_rows(stream, args, spec.quant,
                  {arranged, reinterpret_cast<float*>(sums), kMostSumBytes});
}

}  // namespace

int64_t quant_workspace_bytes(int64_t max_rows, const WeightSpec& spec) {
  const QuantWeightLayout layout = quant_weight_layout(spec);
  const int64_t rows = std::min(max_rows, rows_at_a_time(layout));
  const int64_t sums = kQuantSlices * rows * spec.n * int64_t{sizeof(float)};
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
