#include "kernels/cuda/experts/expert_products.h"
#include "kernels/cuda/launch.h"

namespace quire::cuda {
namespace {

constexpr int kWarps = 4;  // of a block, a piece each
constexpr int kThreads = kWarps * 32;
// Chunks on their way at once: many experts of several rows keep memory busy by their number.
constexpr int chunks_ahead(int row_tiles) { return 8 / row_tiles; }

// A lane's part of a chunk.
template <int kRowTiles>
struct Fetched {
  Chunk low;
  Chunk high;
  Chunk x[kRowTiles];
};

// Reads along the rows of a piece and of x. A row that is not there is zeros.
template <int kRowTiles>
struct Rows {
  const bfloat16* low = nullptr;
  const bfloat16* high = nullptr;
  const bfloat16* x[kRowTiles] = {};
  int64_t k = 0;

  QUIRE_DEVICE void fetch(int64_t chunk, Fetched<kRowTiles>& to) const {
    const int64_t input = chunk * kChunkInputs + ptx::thread_index() % 4 * 8;
    const auto part = [&](const bfloat16* row) {
      return row != nullptr && input < k ? *reinterpret_cast<const Chunk*>(row + input) : Chunk{};
    };
    to.low = part(low);
    to.high = part(high);
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) to.x[r] = part(x[r]);
  }
};

// Stores a lane's sums of a piece: of weight rows lane / 4 and eight behind it, of rows
// 2 (lane % 4) and the next behind `row`.
template <ExpertStage kStage>
QUIRE_DEVICE void store_sums(const ExpertProductArgs& args, const ExpertTile& tile, int64_t piece,
                             int row, const float (&sums)[4]) {
  const int lane = ptx::thread_index() % 32;
  const int64_t output = piece * piece_outputs(kStage) + lane / 4;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int at = row + lane % 4 * 2 + i;
    if constexpr (kStage == ExpertStage::kGatedInside) {
      store_output<kStage>(args, tile, at, output, sums[i], sums[2 + i]);
    } else {
      store_output<kStage>(args, tile, at, output, 0.0f, sums[i]);
      store_output<kStage>(args, tile, at, output + 8, 0.0f, sums[2 + i]);
    }
  }
}

template <ExpertStage kStage, int kRowTiles>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 3)
    few_rows_experts_kernel(const ExpertProductArgs args, const int num_columns) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const ExpertBlock block = expert_block(ptx::block_index(), num_columns);
  const int warp = ptx::thread_index() / 32;
  const int lane = ptx::thread_index() % 32;
  const int64_t piece = int64_t{block.column} * kWarps + warp;
  if (block.tile >= *args.num_tiles || piece * piece_outputs(kStage) >= args.n) return;
  const ExpertTile tile = args.tiles[block.tile];
  Rows<kRowTiles> rows;
  rows.k = args.k;
  rows.low = weight_row<kStage>(args, tile.expert, piece, lane / 4);
  rows.high = weight_row<kStage>(args, tile.expert, piece, lane / 4 + 8);
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) {
    const int row = r * 8 + lane / 4;
    if (row < tile.num_rows) rows.x[r] = input_row<kStage>(args, tile.first_row + row);
  }
  constexpr int kAhead = chunks_ahead(kRowTiles);
  Fetched<kRowTiles> ahead[kAhead];
#pragma unroll
  for (int j = 0; j < kAhead; ++j) rows.fetch(j, ahead[j]);
  const int64_t num_chunks = (args.k + kChunkInputs - 1) / kChunkInputs;
  float sums[kRowTiles][4] = {};
  for (int64_t chunk = 0; chunk < num_chunks; chunk += kAhead) {
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      if (chunk + j >= num_chunks) continue;
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r)
        multiply_chunk(ahead[j].low, ahead[j].high, ahead[j].x[r], sums[r]);
      rows.fetch(chunk + j + kAhead, ahead[j]);
    }
  }
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) store_sums<kStage>(args, tile, piece, r * 8, sums[r]);
}

}  // namespace

void few_rows_experts(Stream& stream, ExpertStage stage, const ExpertProductArgs& args,
                      int tile_rows, int64_t max_tiles) {
  const int64_t outputs = int64_t{kWarps} * piece_outputs(stage);
  const int64_t num_columns = (args.n + outputs - 1) / outputs;
  const LaunchShape shape{.num_blocks = num_expert_blocks(max_tiles, num_columns),
                          .num_threads = kThreads};
  with_stage(stage, [&]<ExpertStage kStage> {
    if (tile_rows == 8)
      return launch<few_rows_experts_kernel<kStage, 1>>(stream, shape, args,
                                                        static_cast<int>(num_columns));
    launch<few_rows_experts_kernel<kStage, 2>>(stream, shape, args, static_cast<int>(num_columns));
  });
}

}  // namespace quire::cuda
