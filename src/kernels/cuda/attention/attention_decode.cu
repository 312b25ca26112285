// This is attention of few query rows over a long context, which reading keys and values once
// bounds. The context is cut into splits, and the warps of a block share each tile of 64 positions:
// some positions of the scores each, some dims of the sums each.
#include "kernels/cuda/attention/attention_kernels.h"
#include "kernels/cuda/attention/attention_memory.h"
#include "kernels/cuda/attention/decode_rows.h"
#include "kernels/cuda/launch.h"

namespace quire::cuda {
namespace {

// Far more blocks than an SM holds at once: as one ends the next begins, so that long and short
// items balance. Only where there may be more items than that does a block take several.
constexpr int kBlocksPerSm = 32;

// Finds the block's work number i; one warp calls it.
QUIRE_DEVICE DecodeWork find_work(const AttentionArgs& args, int32_t i) {
  DecodeWork work;
  const int32_t flat = i / args.num_kv_heads;
  const int32_t request = find_request_by_warp(args.lists.decode_items, args.num_reqs, flat);
  work.exists = flat < args.lists.decode_items[args.num_reqs];
  if (!work.exists) return work;
  const int32_t query_len = args.query_start_loc[request + 1] - args.query_start_loc[request];
  work.cut = cut_request(args.cut, query_len, args.seq_lens[request]);
  const int32_t local = flat - args.lists.decode_items[request];
  const int32_t first_row = local / work.cut.num_splits * kDecodeRows;
  work.split = work.cut.first_split + local % work.cut.num_splits;
  work.item = make_item(args, request, i % args.num_kv_heads, first_row, kDecodeRows);
  const int32_t split_begin = work.split * args.cut.split_size;
  const int32_t split_end = split_begin + args.cut.split_size;
  work.begin = work.item.begin > split_begin ? work.item.begin : split_begin;
  work.end = work.item.end < split_end ? work.item.end : split_end;
  work.first_query = work.item.first_position + first_row / args.cut.group;
  return work;
}

// Calls f with the dims and sums that the lane has of a row: element j and j + 2 of row tile r.
template <typename Shape, typename F>
QUIRE_DEVICE void for_each_sum(const AttentionArgs& args, const DecodeState<Shape>& state, int r,
                               int j, F f) {
  const int warp = ptx::thread_index() / 32;
  const int place = ptx::thread_index() % 32 / 4;
#pragma unroll
  for (int m = 0; m < Shape::kSumTiles; ++m) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int dim =
          (warp * Shape::kSumTiles + m) * 16 + (Shape::kIsFp8 ? place * 2 + i : place + i * 8);
      if (dim < args.head_dim) f(dim, state.sums[m][r][2 * i + j]);
    }
  }
}

// Writes to the output when the request has one split, else to the partials.
template <typename Shape>
QUIRE_DEVICE void store_row(const AttentionArgs& args, const DecodeWork& work, int r, int j,
                            const DecodeState<Shape>& state) {
  const AttentionItem& item = work.item;
  const int32_t row = item.first_row + r * 8 + ptx::thread_index() % 4 * 2 + j;
  if (row >= item.end_row) return;
  if (work.cut.num_splits == 1) {
    const int32_t head = item.kv_head * args.cut.group + row % args.cut.group;
    const Finish finish = finish_row(args, head, state.maximum[r][j], state.weight[r][j]);
    bfloat16* out = out_row(args, item, row);
    for_each_sum<Shape>(args, state, r, j, [&](int dim, float sum) {
      out[dim] = narrow<bfloat16>(finished(finish, sum));
    });
    return;
  }
  const int64_t slot = args.lists.partial_rows[item.request] +
                       int64_t{work.split - work.cut.first_split} * work.cut.rows + row;
  float* partial = args.partials + (slot * args.num_kv_heads + item.kv_head) * (args.head_dim + 2);
  for_each_sum<Shape>(args, state, r, j, [&](int dim, float sum) { partial[dim] = sum; });
  if (ptx::thread_index() < 4) {
    partial[args.head_dim] = state.maximum[r][j];
    partial[args.head_dim + 1] = state.weight[r][j];
  }
}

template <typename Shape>
QUIRE_DEVICE void store_item(const AttentionArgs& args, const DecodeWork& work,
                             const DecodeState<Shape>& state) {
#pragma unroll
  for (int r = 0; r < Shape::kRowTiles; ++r) {
    store_row<Shape>(args, work, r, 0, state);
    store_row<Shape>(args, work, r, 1, state);
  }
}

// Every tile is two groups of copies, keys and values, also where there is no tile left to fetch.
template <typename Shape>
QUIRE_DEVICE void decode_tiles(const AttentionArgs& args, const DecodeWork& work,
                               const QueryOperands<Shape>& query, TileFetcher<Shape>& fetcher,
                               DecodeState<Shape>& state) {
  constexpr int kStages = Shape::kStages;
  const float factor = score_factor(args, work.item);
  uint8_t* memory = ptx::shared_memory();
  const int32_t first_tile = work.begin / kAttentionTile;
  const int32_t end_tile = work.end > work.begin ? (work.end - 1) / kAttentionTile + 1 : first_tile;
  const auto keys = [&](int32_t tile) {
    return memory + static_cast<uint32_t>(tile) % kStages * Shape::kTileBytes;
  };
  const auto fetch = [&](int32_t tile) {
    if (tile < end_tile) {
      fetcher.fetch(tile * kAttentionTile, keys(tile), keys(tile) + Shape::kValues);
    } else {
      ptx::copy_async_commit();
      ptx::copy_async_commit();
    }
  };
#pragma unroll 1
  for (int i = 0; i < kStages - 1; ++i) fetch(first_tile + i);
#pragma unroll 1
  for (int32_t tile = first_tile; tile < end_tile; ++tile) {
    if constexpr (kStages == 1) {
      ptx::sync_threads();  // nobody reads the tile before
      fetch(tile);
      ptx::copy_async_wait<1>();
      ptx::sync_threads();
    } else {
      ptx::copy_async_wait<2 * kStages - 3>();  // the tile's keys are there
      ptx::sync_threads();
      fetch(tile + kStages - 1);
    }
    Scores<Shape> scores;
    score_keys<Shape>(keys(tile), query, scores);
    change_and_mask<Shape>(args, work, tile * kAttentionTile, scores);
    float shrink[Shape::kRowTiles][2];
    take_maxima<Shape>(scores, factor, state, shrink);
    weigh<Shape>(scores, factor, state);
    shrink_state<Shape>(shrink, state);
    ptx::copy_async_wait<2 * kStages - 2>();  // and its values
    ptx::sync_threads();
    WeightOperands<Shape> weights;
    take_weights<Shape>(weights, state);
    add_values<Shape>(keys(tile) + Shape::kValues, weights, state);
  }
}

template <typename Shape>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(Shape::kThreads, Shape::kWarpsPerSm / Shape::kWarps)
    decode_kernel(const AttentionArgs args) {
  static_assert(sizeof(DecodeWork) <= Shape::kSharedBytes - Shape::kWork);
  auto* next = reinterpret_cast<DecodeWork*>(ptx::shared_memory() + Shape::kWork);
  if (!args.is_cut) ptx::wait_for_previous_kernel();
  for (int32_t i = ptx::block_index();; i += ptx::num_blocks()) {
    ptx::sync_threads();  // nobody may still read what the last item left
    if (ptx::thread_index() < 32) {
      const DecodeWork found = find_work(args, i);
      if (ptx::thread_index() == 0) *next = found;
    }
    ptx::sync_threads();
    const DecodeWork work = *next;
    ptx::wait_for_previous_kernel();
    ptx::let_next_kernel_start();
    if (!work.exists) return;
    TileFetcher<Shape> fetcher(args, work);
    QueryOperands<Shape> query;
    load_query<Shape>(args, work.item, query);
    DecodeState<Shape> state;
    clear(state);
    decode_tiles<Shape>(args, work, query, fetcher, state);
    store_item<Shape>(args, work, state);
  }
}

template <typename Shape>
void launch_as(Stream& stream, const AttentionArgs& args, int64_t max_items) {
  launch<decode_kernel<Shape>>(stream,
                               {.num_blocks = blocks_for(gpu(stream), max_items, 1, kBlocksPerSm),
                                .num_threads = Shape::kThreads,
                                .shared_bytes = Shape::kSharedBytes},
                               args);
}
template <int kHeadDim, bool kFp8, int kRowTiles>
void launch_kind(Stream& stream, const AttentionArgs& args, int64_t max_items) {
  using Shape = DecodeShape<kHeadDim, kFp8, kRowTiles>;
  constexpr int64_t kLeast = least_attention_shared_bytes(kHeadDim, kFp8);
  if constexpr (Shape::kSharedBytes > kLeast) {
    using LessMemory = DecodeShape<kHeadDim, kFp8, kRowTiles, 1>;
    static_assert(LessMemory::kSharedBytes <= kLeast);
    if (Shape::kSharedBytes > gpu(stream).info().shared_bytes_per_block)
      return launch_as<LessMemory>(stream, args, max_items);
  }
  launch_as<Shape>(stream, args, max_items);
}
template <int kHeadDim, int kRowTiles>
void launch_for(Stream& stream, const AttentionArgs& args, int64_t max_items) {
  if (args.is_fp8) return launch_kind<kHeadDim, true, kRowTiles>(stream, args, max_items);
  launch_kind<kHeadDim, false, kRowTiles>(stream, args, max_items);
}
template <int kRowTiles>
void launch_with(Stream& stream, const AttentionArgs& args, int64_t max_items) {
  if (args.head_dim <= 64) return launch_for<64, kRowTiles>(stream, args, max_items);
  if (args.head_dim <= 128) return launch_for<128, kRowTiles>(stream, args, max_items);
  launch_for<256, kRowTiles>(stream, args, max_items);
}

}  // namespace

void launch_decode_attention(Stream& stream, const AttentionArgs& args, int32_t max_rows,
                             int64_t max_items) {
  if (max_rows <= 8) return launch_with<1>(stream, args, max_items);
  launch_with<2>(stream, args, max_items);
}

}  // namespace quire::cuda
