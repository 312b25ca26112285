// A block multiplies 128 weight rows (eight pieces) by a tile of 64 or 128 rows, whose inputs go
// through a ring in shared memory. Of its four warps two take each half of the pieces, one the even
// and one the odd groups of eight rows, so that both have equal work in tiles that are not full.
#include "kernels/cuda/experts/expert_products.h"
#include "kernels/cuda/launch.h"

namespace quire::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWeightRows = 128;
constexpr int kPieces = 4;  // of each warp
constexpr int kStages = 3;
constexpr int kStageChunks = 2;
constexpr int kStageInputs = kStageChunks * kChunkInputs;
// In each stage, a thread copies the same 16 bytes of every 16th row.
constexpr int kRowCopies = kStageInputs * 2 / 16;
constexpr int kRowsAtOnce = kThreads / kRowCopies;
static_assert(kRowsAtOnce == 16, "a piece");

// Shared memory: for each stage [chunk][row][32 inputs] of weights, then of x; after the stages,
// the addresses of the rows of x.
template <int kRows>
struct Layout {
  static constexpr int kWeightBytes = kStageChunks * kWeightRows * kChunkBytes;
  static constexpr int kStageBytes = kWeightBytes + kStageChunks * kRows * kChunkBytes;
  static constexpr int kRowsAt = kStages * kStageBytes;
  static constexpr int kBytes = kRowsAt + kRows * 8;
  // At the end the sums, [row][weight row], take the place of the stages. Four more floats per row
  // put the lanes into different banks.
  static constexpr int kSumStride = kWeightRows + 4;
  static_assert(kRows * kSumStride * 4 <= kRowsAt);
};

QUIRE_DEVICE uint8_t* chunk_part(uint8_t* rows, int num_rows, int chunk, int row, int part) {
  return rows + chunk * num_rows * kChunkBytes + part_offset(row, part);
}

template <ExpertStage kStage, int kRows>
struct Copier {
  const bfloat16* weight[2];  // the thread's row of the first and of the last existing piece
  int64_t piece_stride = 0;
  int64_t num_pieces = 0;  // pieces, of eight, in which the thread's row exists
  int64_t k = 0;
  uint8_t* memory = nullptr;

  // Closes a group of copies, which is empty after the last input.
  QUIRE_DEVICE void start(int64_t step) const {
    const int part = ptx::thread_index() % kRowCopies;
    const int64_t input = step * kStageInputs + part * 8;
    if (step * kStageInputs < k) {
      const bool valid = input < k;
      uint8_t* weights = memory + step % kStages * Layout<kRows>::kStageBytes;
      uint8_t* x = weights + Layout<kRows>::kWeightBytes;
      const auto* const* rows =
          reinterpret_cast<const bfloat16* const*>(memory + Layout<kRows>::kRowsAt);
#pragma unroll
      for (int i = 0; i < kWeightRows / kRowsAtOnce; ++i) {
        const int row = ptx::thread_index() / kRowCopies + i * kRowsAtOnce;
        const bool here = valid && i < num_pieces;
        ptx::copy_async_16(chunk_part(weights, kWeightRows, part / 4, row, part % 4),
                           here ? weight[0] + i * piece_stride + input : weight[1], here);
      }
#pragma unroll
      for (int i = 0; i < kRows / kRowsAtOnce; ++i) {
        const int row = ptx::thread_index() / kRowCopies + i * kRowsAtOnce;
        const bfloat16* from = rows[row];
        const bool here = valid && from != nullptr;
        ptx::copy_async_16(chunk_part(x, kRows, part / 4, row, part % 4),
                           here ? from + input : weight[1], here);
      }
    }
    ptx::copy_async_commit();
  }
};

// Adds a stage's products to a warp's sums.
template <int kRows, int kRowTiles>
QUIRE_DEVICE void multiply_stage(const uint8_t* weights, int num_chunks, int num_rows,
                                 float (&sums)[kPieces][kRowTiles][4]) {
  const int warp = ptx::thread_index() / 32;
  const uint8_t* const x = weights + Layout<kRows>::kWeightBytes;
#pragma unroll
  for (int chunk = 0; chunk < kStageChunks; ++chunk) {
    if (chunk >= num_chunks) continue;
    WeightChunk pieces[kPieces];
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const int first_weight = (warp / 2 * kPieces + i) * 16;
      read_weights(weights + (chunk * kWeightRows + first_weight) * kChunkBytes, pieces[i]);
    }
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      const int row = (2 * r + warp % 2) * 8;
      if (row >= num_rows) continue;
      InputChunk inputs;
      read_inputs(x + (chunk * kRows + row) * kChunkBytes, inputs);
#pragma unroll
      for (int i = 0; i < kPieces; ++i) multiply_chunk(pieces[i], inputs, sums[i][r]);
    }
  }
}

template <ExpertStage kStage, int kRows>
QUIRE_DEVICE Copier<kStage, kRows> make_copier(const ExpertProductArgs& args,
                                               const ExpertTile& tile, int64_t first_piece) {
  constexpr int kOutputs = piece_outputs(kStage);
  uint8_t* const memory = ptx::shared_memory();
  auto* rows = reinterpret_cast<const bfloat16**>(memory + Layout<kRows>::kRowsAt);
  const int thread = ptx::thread_index();
  if (thread < kRows)
    rows[thread] =
        thread < tile.num_rows ? input_row<kStage>(args, tile.first_row + thread) : nullptr;
  const int row = thread / kRowCopies;
  const bfloat16* first = weight_row<kStage>(args, tile.expert, first_piece, row);
  const int64_t output =
      first_piece * kOutputs + (kStage == ExpertStage::kGatedInside ? row % 8 : row);
  Copier<kStage, kRows> copier;
  copier.weight[0] = first;
  copier.weight[1] = args.weight.first;
  copier.piece_stride = kOutputs * args.k;
  copier.num_pieces = first == nullptr ? 0 : (args.n - output + kOutputs - 1) / kOutputs;
  copier.k = args.k;
  copier.memory = memory;
  return copier;
}

template <int kRows, int kRowTiles>
QUIRE_DEVICE void keep_sums(const float (&sums)[kPieces][kRowTiles][4], float* memory) {
  const int warp = ptx::thread_index() / 32;
  const int lane = ptx::thread_index() % 32;
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int row = (2 * r + warp % 2) * 8 + lane % 4 * 2 + j % 2;
        const int weight_row = (warp / 2 * kPieces + i) * 16 + lane / 4 + j / 2 * 8;
        memory[row * Layout<kRows>::kSumStride + weight_row] = sums[i][r][j];
      }
    }
  }
}

// Neighbouring threads store neighbouring outputs.
template <ExpertStage kStage, int kRows>
QUIRE_DEVICE void store_tile(const ExpertProductArgs& args, const ExpertTile& tile,
                             int64_t first_piece, const float* memory) {
  constexpr bool kGated = kStage == ExpertStage::kGatedInside;
  constexpr int kOutputs = kGated ? kWeightRows / 2 : kWeightRows;
  const int64_t first_output = first_piece * piece_outputs(kStage);
#pragma unroll 1
  for (int i = ptx::thread_index(); i < tile.num_rows * kOutputs; i += kThreads) {
    const int row = i / kOutputs;
    const int output = i % kOutputs;
    const float* sums = memory + row * Layout<kRows>::kSumStride;
    if constexpr (kGated) {
      sums += output / 8 * 16 + output % 8;
      store_output<kStage>(args, tile, row, first_output + output, sums[0], sums[8]);
    } else {
      store_output<kStage>(args, tile, row, first_output + output, 0.0f, sums[output]);
    }
  }
}

template <ExpertStage kStage, int kRows>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 2)
    many_rows_experts_kernel(const ExpertProductArgs args, const int num_columns) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const ExpertBlock block = expert_block(ptx::block_index(), num_columns);
  if (block.tile >= *args.num_tiles) return;
  const ExpertTile tile = args.tiles[block.tile];
  const int64_t first_piece = int64_t{block.column} * (kWeightRows / 16);
  const Copier<kStage, kRows> copier = make_copier<kStage, kRows>(args, tile, first_piece);
  ptx::sync_threads();
#pragma unroll
  for (int step = 0; step < kStages - 1; ++step) copier.start(step);
  constexpr int kRowTiles = kRows / 16;
  float sums[kPieces][kRowTiles][4] = {};
  const int64_t num_steps = (args.k + kStageInputs - 1) / kStageInputs;
  for (int64_t step = 0; step < num_steps; ++step) {
    ptx::copy_async_wait<kStages - 2>();
    ptx::sync_threads();  // copies of all threads are done; the oldest stage is no longer read
    copier.start(step + kStages - 1);
    const int64_t left = args.k - step * kStageInputs;
    multiply_stage<kRows>(copier.memory + step % kStages * Layout<kRows>::kStageBytes,
                          left > kChunkInputs ? 2 : 1, tile.num_rows, sums);
  }
  ptx::copy_async_wait<0>();
  ptx::sync_threads();  // stages are no longer read
  auto* const memory = reinterpret_cast<float*>(copier.memory);
  keep_sums<kRows>(sums, memory);
  ptx::sync_threads();
  store_tile<kStage, kRows>(args, tile, first_piece, memory);
}

}  // namespace

void many_rows_experts(Stream& stream, ExpertStage stage, const ExpertProductArgs& args,
                       int tile_rows, int64_t max_tiles) {
  const int64_t outputs = int64_t{kWeightRows / 16} * piece_outputs(stage);
  const int64_t num_columns = (args.n + outputs - 1) / outputs;
  const auto shape = [&](int shared_bytes) {
    return LaunchShape{.num_blocks = num_expert_blocks(max_tiles, num_columns),
                       .num_threads = kThreads,
                       .shared_bytes = shared_bytes};
  };
  with_stage(stage, [&]<ExpertStage kStage> {
    if (tile_rows <= 64)
      return launch<many_rows_experts_kernel<kStage, 64>>(stream, shape(Layout<64>::kBytes), args,
                                                          static_cast<int>(num_columns));
    launch<many_rows_experts_kernel<kStage, 128>>(stream, shape(Layout<128>::kBytes), args,
                                                  static_cast<int>(num_columns));
  });
}

}  // namespace quire::cuda
