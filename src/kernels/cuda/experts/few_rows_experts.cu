#include "kernels/cuda/experts/expert_products.h"
#include "kernels/cuda/launch.h"

namespace quire::cuda {
namespace {

constexpr int kWarps = 4;  // of a block; each has a piece
constexpr int kThreads = kWarps * 32;
constexpr int kChunksAhead = 12;  // in flight at once

// A lane copies 16 bytes of each of two weight rows and, per tile, of a row of x. A slot of a
// warp's ring holds a chunk: eight weight rows, the next eight, and the tiles of x.
template <int kRowTiles>
struct ChunkRing {
  static constexpr int kEights = 2 + kRowTiles;
  static constexpr int kEightBytes = 8 * kChunkBytes;
  static constexpr int kSlotBytes = kEights * kEightBytes;
  static constexpr int kBytes = kChunksAhead * kSlotBytes;  // of each warp

  const bfloat16* rows[kEights] = {};  // null: the row does not exist, and is read as zeros
  const bfloat16* somewhere = nullptr;
  int64_t k = 0;

  QUIRE_DEVICE static uint8_t* rows_of(int slot, int eight) {
    return ptx::shared_memory() + ptx::thread_index() / 32 * kBytes + slot * kSlotBytes +
           eight * kEightBytes;
  }
  // Closes a group of copies even if it is empty, so that groups can be counted.
  QUIRE_DEVICE void fetch(int64_t chunk, int slot) const {
    const int lane = ptx::thread_index() % 32;
    const int64_t input = chunk * kChunkInputs + lane % 4 * 8;
#pragma unroll
    for (int i = 0; i < kEights; ++i) {
      const bool is_there = rows[i] != nullptr && input < k;
      ptx::copy_async_16(rows_of(slot, i) + part_offset(lane / 4, lane % 4),
                         is_there ? rows[i] + input : somewhere, is_there);
    }
    ptx::copy_async_commit();
  }
};

// Stores a lane's sums of a piece: those of weight rows lane / 4 and lane / 4 + 8, for rows row + 2
// (lane % 4) and the next.
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
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 2)
    few_rows_experts_kernel(const ExpertProductArgs args, const int num_columns) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const ExpertBlock block = expert_block(ptx::block_index(), num_columns);
  const int warp = ptx::thread_index() / 32;
  const int lane = ptx::thread_index() % 32;
  const int64_t piece = int64_t{block.column} * kWarps + warp;
  if (block.tile >= num_tiles_of(args) || piece * piece_outputs(kStage) >= args.n) return;
  const ExpertTile tile = tile_of(args, block.tile);
  ChunkRing<kRowTiles> ring;
  ring.k = args.k;
  ring.somewhere = args.weight.first;
  ring.rows[0] = weight_row<kStage>(args, tile.expert, piece, lane / 4);
  ring.rows[1] = weight_row<kStage>(args, tile.expert, piece, lane / 4 + 8);
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) {
    const int row = r * 8 + lane / 4;
    if (row < tile.num_rows) ring.rows[2 + r] = input_row<kStage>(args, tile.first_row + row);
  }
  // A slot is filled again one chunk after it was multiplied.
  for (int slot = 0; slot + 1 < kChunksAhead; ++slot) ring.fetch(slot, slot);
  const int64_t num_chunks = (args.k + kChunkInputs - 1) / kChunkInputs;
  float sums[kRowTiles][4] = {};
  int slot = 0;
  int free_slot = kChunksAhead - 1;
  for (int64_t chunk = 0; chunk < num_chunks; ++chunk) {
    ptx::copy_async_wait<kChunksAhead - 2>();
    ptx::sync_warp();  // copies of all lanes are done; the free slot is no longer read
    WeightChunk weights;
    read_weights(ring.rows_of(slot, 0), weights);
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      InputChunk x;
      read_inputs(ring.rows_of(slot, 2 + r), x);
      multiply_chunk(weights, x, sums[r]);
    }
    ring.fetch(chunk + kChunksAhead - 1, free_slot);
    free_slot = slot;
    if (++slot == kChunksAhead) slot = 0;
  }
  ptx::copy_async_wait<0>();
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) store_sums<kStage>(args, tile, piece, r * 8, sums[r]);
}

}  // namespace

void few_rows_experts(Stream& stream, ExpertStage stage, const ExpertProductArgs& args,
                      int tile_rows, int64_t max_tiles) {
  const int64_t outputs = int64_t{kWarps} * piece_outputs(stage);
  const int64_t num_columns = (args.n + outputs - 1) / outputs;
  const auto shape_with = [&](int64_t ring_bytes) {
    return LaunchShape{.num_blocks = num_expert_blocks(max_tiles, num_columns),
                       .num_threads = kThreads,
                       .shared_bytes = kWarps * ring_bytes};
  };
  with_stage(stage, [&]<ExpertStage kStage> {
    if (tile_rows == 8)
      return launch<few_rows_experts_kernel<kStage, 1>>(stream, shape_with(ChunkRing<1>::kBytes),
                                                        args, static_cast<int>(num_columns));
    launch<few_rows_experts_kernel<kStage, 2>>(stream, shape_with(ChunkRing<2>::kBytes), args,
                                               static_cast<int>(num_columns));
  });
}

}  // namespace quire::cuda
