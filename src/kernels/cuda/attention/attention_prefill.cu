// Attention of many query rows (FlashAttention-2, Dao 2023). A block holds kRows packed rows, each
// of its four warps a quarter of them, and walks the tiles of 64 positions that any row sees.
// Scores, weights and sums stay in registers; keys and values go through shared memory, and the
// next tile is loaded while this one is used.
#include "kernels/cuda/attention/attention_device.h"
#include "kernels/cuda/attention/attention_kernels.h"
#include "kernels/cuda/attention/attention_memory.h"
#include "kernels/cuda/attention/attention_rows.h"
#include "kernels/cuda/launch.h"

namespace quire::cuda {
namespace {

constexpr int kWarps = kAttentionThreads / 32;
// Returns as many blocks as the registers of an SM allow; at 256 dims one block fills them.
constexpr int most_blocks_per_sm(int head_dim) { return head_dim <= 128 ? 2 : 1; }

// With 32 rows per warp, each product reads half as much from shared memory; at 256 dims the sums
// of 16 rows fill the registers.
constexpr int row_tiles(int head_dim) { return head_dim <= 128 ? 2 : 1; }

// Returns the floats of scratch of a block with fold_splits.
constexpr int64_t total_floats(int head_dim) {
  return int64_t{row_tiles(head_dim)} * row_total_floats(head_dim) * kAttentionThreads;
}

// With one stage, a tile is fetched only when the one before it has been used. That is slower, and
// meant for GPUs whose shared memory has no room for two stages.
template <int kHeadDimOf, bool kFp8Of, int kStagesOf>
struct PrefillMemory {
  static constexpr int kHeadDim = kHeadDimOf;
  static constexpr bool kFp8 = kFp8Of;
  static constexpr int kRows = kWarps * 16 * row_tiles(kHeadDim);
  static constexpr int kStages = kStagesOf;
  static constexpr int kQuery = 0;
  using Tiles = TileMemory<kHeadDim, kFp8, kStages, kRows * kHeadDim * 2>;
  static constexpr int kTotal = Tiles::kEnd;
};

template <int kHeadDim>
QUIRE_DEVICE void prefill_scores(const uint8_t* query, const uint8_t* keys, int row,
                                 float (&scores)[8][4]) {
#pragma unroll
  for (auto& tile : scores) {
#pragma unroll
    for (float& x : tile) x = 0.0f;
  }
#pragma unroll 1  // addresses of more loads would take the sums' registers
  for (int k = 0; k < kHeadDim / 16; ++k) {
    uint32_t a[4];
    ptx::load_matrices(a, matrix_row(query, row, k * 2, kHeadDim / 8));
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      uint32_t b[4];
      ptx::load_matrices(b, matrix_row_n(keys, n * 16, k * 2, kHeadDim / 8));
      ptx::multiply_tiles(scores[2 * n], a, b[0], b[1]);
      ptx::multiply_tiles(scores[2 * n + 1], a, b[2], b[3]);
    }
  }
}

template <int kHeadDim>
QUIRE_DEVICE void prefill_sums(RowSums<kHeadDim> (&rows)[row_tiles(kHeadDim)],
                               const uint32_t (&weights)[row_tiles(kHeadDim)][4][4],
                               const uint8_t* values) {
#pragma unroll
  for (int n = 0; n < kHeadDim / 16; ++n) {  // the loop over k is inside: fewer sums in flight
#pragma unroll
    for (int k = 0; k < kAttentionTile / 16; ++k) {
      uint32_t b[4];
      ptx::load_matrices_transposed(b, matrix_row(values, k * 16, n * 2, kHeadDim / 8));
#pragma unroll
      for (int m = 0; m < row_tiles(kHeadDim); ++m) {
        auto& panel = rows[m].sums[n / 4];
        ptx::multiply_tiles(panel[n % 4 * 2], weights[m][k], b[0], b[1]);
        ptx::multiply_tiles(panel[n % 4 * 2 + 1], weights[m][k], b[2], b[3]);
      }
    }
  }
}

// Returns where this thread stores row tile m between splits.
template <int kHeadDim>
QUIRE_DEVICE FoldStore fold_store(const AttentionArgs& args, int m) {
  const int64_t before = ptx::block_index() * total_floats(kHeadDim) +
                         int64_t{m} * row_total_floats(kHeadDim) * kAttentionThreads;
  return {reinterpret_cast<FoldStore::Four*>(args.totals + before) + ptx::thread_index(),
          kAttentionThreads};
}

template <typename Memory>
QUIRE_DEVICE void prefill_item(const AttentionArgs& args, const AttentionItem& item) {
  constexpr int kHeadDim = Memory::kHeadDim;
  constexpr bool kFp8 = Memory::kFp8;
  using Tiles = typename Memory::Tiles;
  constexpr int kRowTiles = row_tiles(kHeadDim);
  uint8_t* memory = ptx::shared_memory();
  const TileWalk walk = tile_walk(args, item);
  const auto fetch = [&](int32_t tile) {
    if (tile < walk.num_tiles) {
      load_tile<kHeadDim, kFp8, Tiles>(args, item, (walk.first_tile + tile) * kAttentionTile,
                                       item.begin, item.end, tile % Memory::kStages, memory);
    }
    ptx::copy_async_commit();
  };
  ptx::sync_threads();  // the last item's memory is no longer read
  load_query<kHeadDim, Memory::kRows>(args, item, memory + Memory::kQuery);
  fetch(0);

  RowSums<kHeadDim> rows[kRowTiles];
  RowSoftmax softmax[kRowTiles];
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
    clear(rows[m]);
    clear(softmax[m].maximum);
    clear(softmax[m].weight);
  }
  RowTotals totals[kRowTiles];
  const float factor = score_factor(args, item);
  bool is_first = true;
  const int warp_row = ptx::thread_index() / 32 * 16 * kRowTiles;  // in the item
  for (int32_t tile = 0; tile < walk.num_tiles; ++tile) {
    ptx::copy_async_wait<0>();
    ptx::sync_threads();
    if constexpr (Memory::kStages > 1) fetch(tile + 1);
    const TileView view = landed_tile<kHeadDim, kFp8, Tiles>(tile % Memory::kStages, memory);
    uint32_t weights[kRowTiles][4][4];
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {  // one after another: both take 64 registers
      float scores[8][4];
      prefill_scores<kHeadDim>(memory + Memory::kQuery, view.keys, warp_row + m * 16, scores);
      cap_scores(args, item, scores);
      if (args.alibi_slopes != nullptr || walk.needs_check(tile)) {
        const int32_t first_row = item.first_row + warp_row + m * 16;
        const int32_t first_position = (walk.first_tile + tile) * kAttentionTile;
        if (args.alibi_slopes != nullptr)
          apply_alibi(args, item, first_row, first_position, scores);
        if (walk.needs_check(tile)) hide_scores(args, item, first_row, first_position, scores);
      }
      float shrink[2];
      weigh_scores(softmax[m].maximum, factor, scores, shrink);
      pack_weights(scores, weights[m]);
      shrink_rows(rows[m], softmax[m].weight, shrink);
#pragma unroll
      for (int k = 0; k < kAttentionTile / 16; ++k)
        ptx::multiply_tiles(softmax[m].weight[0], weights[m][k], kBf16Ones, kBf16Ones);
    }
    prefill_sums(rows, weights, view.values);
    if constexpr (Memory::kStages == 1) {
      ptx::sync_threads();
      fetch(tile + 1);
    }
    const bool is_last = tile + 1 == walk.num_tiles;
    if (!is_last && !(walk.folds && walk.ends_split(tile))) continue;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      totals[m] = totals_of(softmax[m].maximum, softmax[m].weight);
      clear(softmax[m].maximum);
      clear(softmax[m].weight);
      if (walk.folds)
        fold_rows(rows[m], totals[m], fold_store<kHeadDim>(args, m), is_first, is_last);
    }
    is_first = false;
  }
  ptx::copy_async_wait<0>();
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m)
    store_rows(args, item, item.first_row + warp_row + m * 16, rows[m], totals[m]);
}

template <typename Memory>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kAttentionThreads, most_blocks_per_sm(Memory::kHeadDim))
    prefill_kernel(const AttentionArgs args) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  for_each_prefill_item(args, [&](const AttentionItem& item) { prefill_item<Memory>(args, item); });
}

template <typename Memory>
void launch_with(Stream& stream, const AttentionArgs& args) {
  const GpuInfo& info = gpu(stream).info();
  const int64_t blocks_per_sm =
      resident_blocks(info, Memory::kTotal, most_blocks_per_sm(Memory::kHeadDim));
  launch<prefill_kernel<Memory>>(stream,
                                 {.num_blocks = info.num_sms * blocks_per_sm,
                                  .num_threads = kAttentionThreads,
                                  .shared_bytes = Memory::kTotal},
                                 args);
}
template <int kHeadDim, bool kFp8>
void launch_as(Stream& stream, const AttentionArgs& args) {
  using Memory = PrefillMemory<kHeadDim, kFp8, 2>;
  constexpr int64_t kLeast = least_attention_shared_bytes(kHeadDim, kFp8);
  if constexpr (Memory::kTotal > kLeast) {
    using LessMemory = PrefillMemory<kHeadDim, kFp8, 1>;
    static_assert(LessMemory::kTotal == kLeast);
    if (Memory::kTotal > gpu(stream).info().shared_bytes_per_block)
      return launch_with<LessMemory>(stream, args);
  }
  launch_with<Memory>(stream, args);
}
template <int kHeadDim>
void launch_for(Stream& stream, const AttentionArgs& args) {
  if (args.is_fp8) return launch_as<kHeadDim, true>(stream, args);
  launch_as<kHeadDim, false>(stream, args);
}

}  // namespace

PrefillShape prefill_shape(const Stream& stream, int head_dim) {
  const int padded = padded_head_dim(head_dim);
  const int64_t num_blocks = int64_t{gpu(stream).info().num_sms} * most_blocks_per_sm(padded);
  return {.item_rows = kWarps * 16 * row_tiles(padded),
          .total_floats = num_blocks * total_floats(padded)};
}

void launch_prefill_attention(Stream& stream, const AttentionArgs& args) {
  if (args.head_dim <= 64) return launch_for<64>(stream, args);
  if (args.head_dim <= 128) return launch_for<128>(stream, args);
  launch_for<256>(stream, args);
}

}  // namespace quire::cuda
