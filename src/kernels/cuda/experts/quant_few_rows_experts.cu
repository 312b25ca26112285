// A block processes its items one after another: two packed tiles of an expert times a tile of
// rows. Each of its four warps sums a slice of K; the slices are added in order at the end.
#include "kernels/cuda/experts/quant_experts.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/quant/slice_sums.h"

namespace quire::cuda {
namespace {

constexpr int kThreads = kExpertSlices * 32;  // a warp per slice
constexpr int kOutTiles = 2;

template <CodeKind kCode, bool kHasMins, int kRowTiles>
struct Shape {
  // The stages that each warp has in flight.
  static constexpr int kStages = (is_4_bit(kCode) ? 4 : 3) + (kRowTiles <= 2 && !kHasMins ? 1 : 0);
  static constexpr int kBlocksPerSm = kRowTiles == 4 ? 2 : kRowTiles == 2 && kHasMins ? 3 : 4;
  using Sums = SliceSums<kCode, kHasMins, kOutTiles, kRowTiles, kStages, QuantExpertItems>;
  static constexpr int kRing = Sums::Stream::kRingBytes;  // of each warp
  static constexpr int kLaneSums = kOutTiles * kRowTiles * 4;
  static constexpr int kMeeting = kExpertSlices * kLaneSums * 32 * int{sizeof(float)};
  static constexpr int kBytes = kExpertSlices * kRing + 2 * kMeeting;
  static_assert(kBytes <= 99 << 10, "the least that a GPU of compute capability 8 has");
};

// Adds the slices and stores the outputs. `meeting`: [slice][sum of a lane][lane].
template <int kRowTiles>
QUIRE_DEVICE void finish_item(const QuantExpertArgs& args, const ExpertTile& tile, int first_tile,
                              const float* meeting) {
  constexpr int kTileSums = kRowTiles * 4;  // of each lane
  const int warp = ptx::thread_index() / 32;
  const int lane = ptx::thread_index() % 32;
  const auto total = [&](int at) {
    float sum = meeting[at * 32 + lane];
#pragma unroll
    for (int slice = 1; slice < kExpertSlices; ++slice)
      sum = ptx::add(sum, meeting[(slice * kOutTiles * kTileSums + at) * 32 + lane]);
    return sum;
  };
  const int num_sums = args.is_gated() ? kTileSums : kOutTiles * kTileSums;
  for (int at = warp; at < num_sums; at += kExpertSlices) {
    const int row = at % kTileSums / 4 * 8 + lane % 4 * 2 + at % 2;
    if (row >= tile.num_rows) continue;
    const int output = (first_tile + at / kTileSums) * 16 + lane / 4 + at % 4 / 2 * 8;
    if (args.stage == ExpertStage::kGatedInside) {
      store_output<ExpertStage::kGatedInside>(args, tile, row, output, total(at),
                                              total(at + kTileSums));
    } else if (args.stage == ExpertStage::kInside) {
      store_output<ExpertStage::kInside>(args, tile, row, output, 0.0f, total(at));
    } else {
      store_output<ExpertStage::kOutputs>(args, tile, row, output, 0.0f, total(at));
    }
  }
}

template <CodeKind kCode, bool kHasMins, int kRowTiles>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, (Shape<kCode, kHasMins, kRowTiles>::kBlocksPerSm))
    quant_few_rows_experts_kernel(const QuantExpertArgs args) {
  using S = Shape<kCode, kHasMins, kRowTiles>;
  // The tiles of rows were made before the first stage. Every kernel of that stage has waited for
  // them, so the second stage fetches weights while the experts' insides are still multiplied.
  if (args.stage != ExpertStage::kOutputs) ptx::wait_for_previous_kernel();
  const int warp = ptx::thread_index() / 32;
  const int lane = ptx::thread_index() % 32;
  const QuantExpertItems items(args, ExpertColumns(args, kOutTiles));
  uint8_t* const memory = ptx::shared_memory();
  typename S::Sums sums(args, items, expert_slice_begin(args.layout.num_chunks, warp),
                        expert_slice_begin(args.layout.num_chunks, warp + 1),
                        memory + warp * S::kRing);
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  int which = 0;  // alternates between two places for sums, so that an item needs one wait
  for (int item = items.first(); item < items.count; item += items.step()) {
    sums.sum_item(item);
    auto* const meeting =
        reinterpret_cast<float*>(memory + kExpertSlices * S::kRing + which * S::kMeeting);
    which ^= 1;
#pragma unroll
    for (int at = 0; at < S::kLaneSums; ++at)
      meeting[(warp * S::kLaneSums + at) * 32 + lane] =
          sums.total(at / 4 / kRowTiles, at / 4 % kRowTiles, at % 4);
    ptx::sync_threads();
    finish_item<kRowTiles>(args, items.rows(args, item), items.first_tile(item), meeting);
  }
}

template <CodeKind kCode, bool kHasMins, int kRowTiles>
void launch_shape(Stream& stream, const QuantExpertArgs& args, int64_t max_tiles) {
  using S = Shape<kCode, kHasMins, kRowTiles>;
  const int64_t resident = resident_blocks(gpu(stream).info(), S::kBytes, S::kBlocksPerSm);
  launch<quant_few_rows_experts_kernel<kCode, kHasMins, kRowTiles>>(
      stream,
      {.num_blocks =
           blocks_for(gpu(stream), max_tiles * ExpertColumns(args, kOutTiles).count, 1, resident),
       .num_threads = kThreads,
       .shared_bytes = S::kBytes},
      args);
}

template <CodeKind kCode, bool kHasMins = false>
void launch_code(Stream& stream, const QuantExpertArgs& args, int tile_rows, int64_t max_tiles) {
  if (tile_rows == 8) return launch_shape<kCode, kHasMins, 1>(stream, args, max_tiles);
  if (tile_rows == 16) return launch_shape<kCode, kHasMins, 2>(stream, args, max_tiles);
  QUIRE_CHECK(tile_rows == 32, "[run_experts] quantized weights and tiles of {} rows", tile_rows);
  launch_shape<kCode, kHasMins, 4>(stream, args, max_tiles);
}

}  // namespace

void quant_few_rows_experts(Stream& stream, const QuantExpertArgs& args, const QuantSpec& quant,
                            int tile_rows, int64_t max_tiles) {
  const auto launch_with = [&]<CodeKind kCode, bool kHasMins = false> {
    launch_code<kCode, kHasMins>(stream, args, tile_rows, max_tiles);
  };
  if (quant.codebook == Codebook::kE2M1) return launch_with.operator()<CodeKind::kFp4>();
  if (quant.codebook == Codebook::kE4M3) return launch_with.operator()<CodeKind::kFp8>();
  const bool has_mins = quant.zero_kind == ZeroKind::kMin;
  if (quant.bits == 4) {
    return has_mins ? launch_with.operator()<CodeKind::kInt4, true>()
                    : launch_with.operator()<CodeKind::kInt4>();
  }
  has_mins ? launch_with.operator()<CodeKind::kInt8, true>()
           : launch_with.operator()<CodeKind::kInt8>();
}

}  // namespace quire::cuda
