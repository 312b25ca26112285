// Functions with which the decode kernels find their items and write their sums.
#pragma once

#include "kernels/cuda/attention/decode_rows.h"

namespace quire::cuda {

// Far more blocks than an SM holds at once: when one ends the next begins, which balances long and
// short items. A block takes several items only if there are more items than blocks.
inline constexpr int kDecodeBlocksPerSm = 32;

// Returns the work for item number `flat` of the packs.
QUIRE_DEVICE DecodeWork find_pack_work(const AttentionArgs& args, int32_t flat, int32_t kv_head) {
  const CutLists& lists = args.lists;
  const int32_t pack = find_request_by_warp(lists.pack_items, *lists.num_packs, flat);
  const int32_t begin = lists.pack_begins[pack];
  DecodeWork work;
  work.exists = true;
  work.requests = lists.pack_requests + begin;
  work.num_requests = lists.pack_begins[pack + 1] - begin;
  const int32_t request = work.requests[0];
  work.split = lists.packed[request].begin + flat - lists.pack_items[pack];
  work.item = make_item(args, request, kv_head, 0, args.cut.group);
  work.begin = work.split * args.cut.split_size;
  work.end = work.begin + args.cut.split_size;
  return work;
}

// Returns the work for number i of the grid; a single warp calls it.
QUIRE_DEVICE DecodeWork find_work(const AttentionArgs& args, int32_t i) {
  const CutLists& lists = args.lists;
  const int32_t flat = i / args.num_kv_heads;
  const int32_t kv_head = i % args.num_kv_heads;
  const int32_t request = find_request_by_warp(lists.decode_items, args.num_reqs, flat);
  const int32_t num_of_packs = lists.decode_items[0];
  if (flat < num_of_packs) return find_pack_work(args, flat, kv_head);
  DecodeWork work;
  work.exists = flat < lists.decode_items[args.num_reqs];
  if (!work.exists) return work;
  const int32_t query_len = args.query_start_loc[request + 1] - args.query_start_loc[request];
  work.cut = cut_request(args.cut, query_len, args.seq_lens[request]);
  const SplitRange packed = num_of_packs > 0 ? lists.packed[request] : SplitRange{};
  const int32_t num_own = work.cut.num_splits - packed.count();
  const int32_t local = flat - lists.decode_items[request];
  const int32_t first_row = local / num_own * kDecodeRows;
  work.split = work.cut.first_split + local % num_own;
  if (packed.count() > 0 && work.split >= packed.begin) work.split += packed.count();
  work.item = make_item(args, request, kv_head, first_row, kDecodeRows);
  const int32_t split_begin = work.split * args.cut.split_size;
  const int32_t split_end = split_begin + args.cut.split_size;
  work.begin = work.item.begin > split_begin ? work.item.begin : split_begin;
  work.end = work.item.end < split_end ? work.item.end : split_end;
  work.first_query = work.item.first_position + first_row / args.cut.group;
  return work;
}

// Calls f with each dim and sum that the lane has of a row: elements j and j + 2 of row tile r.
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
      if (dim < args.value_dim) f(dim, state.sums[m][r][2 * i + j]);
    }
  }
}

// Writes the partial sums of a row of `request`, whose cut is `cut`.
template <typename Shape>
QUIRE_DEVICE void store_partial(const AttentionArgs& args, const DecodeWork& work, int32_t request,
                                const RequestCut& cut, int32_t row, int r, int j,
                                const DecodeState<Shape>& state) {
  const int64_t slot =
      args.lists.partial_rows[request] + int64_t{work.split - cut.first_split} * cut.rows + row;
  float* partial =
      args.partials + (slot * args.num_kv_heads + work.item.kv_head) * (args.value_dim + 2);
  for_each_sum<Shape>(args, state, r, j, [&](int dim, float sum) { partial[dim] = sum; });
  if (ptx::thread_index() < 4) {
    partial[args.value_dim] = state.maximum[r][j];
    partial[args.value_dim + 1] = state.weight[r][j];
  }
}

// Writes to the output if the request has one split, else to the partials. A request of a pack has
// at least two splits: its last one is never in a pack.
template <typename Shape>
QUIRE_DEVICE void store_row(const AttentionArgs& args, const DecodeWork& work, int r, int j,
                            const DecodeState<Shape>& state) {
  const AttentionItem& item = work.item;
  const int32_t of_item = r * 8 + ptx::thread_index() % 4 * 2 + j;
  if constexpr (Shape::kIsPacked) {
    const int32_t group = args.cut.group;
    if (of_item >= work.num_requests * group) return;
    const int32_t request = work.requests[of_item / group];
    const RequestCut cut = cut_request(args.cut, 1, args.seq_lens[request]);
    store_partial<Shape>(args, work, request, cut, of_item % group, r, j, state);
  } else {
    const int32_t row = item.first_row + of_item;
    if (row >= item.end_row) return;
    if (work.cut.num_splits > 1) {
      store_partial<Shape>(args, work, item.request, work.cut, row, r, j, state);
      return;
    }
    const int32_t head = item.kv_head * args.cut.group + row % args.cut.group;
    const Finish finish = finish_row(args, head, state.maximum[r][j], state.weight[r][j]);
    bfloat16* out = out_row(args, item, row);
    for_each_sum<Shape>(args, state, r, j, [&](int dim, float sum) {
      out[dim] = narrow<bfloat16>(finished(finish, sum));
    });
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

// Waits until the writes of earlier kernels can be read, and lets the next kernel start.
QUIRE_DEVICE void begin_reading() {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
}

// Calls f with each work of the block, in all its threads. f must call begin_reading() before it
// reads anything but the block table.
template <typename Shape, typename F>
QUIRE_DEVICE void for_each_decode_work(const AttentionArgs& args, F&& f) {
  static_assert(sizeof(DecodeWork) <= Shape::kSharedBytes - Shape::kWork);
  auto* next = reinterpret_cast<DecodeWork*>(ptx::shared_memory() + Shape::kWork);
  if (!args.is_cut) ptx::wait_for_previous_kernel();
  for (int32_t i = ptx::block_index();; i += ptx::num_blocks()) {
    ptx::sync_threads();  // the previous item's memory is no longer read
    if (ptx::thread_index() < 32) {
      const DecodeWork found = find_work(args, i);
      if (ptx::thread_index() == 0) *next = found;
    }
    ptx::sync_threads();
    const DecodeWork work = *next;
    if (!work.exists) return begin_reading();
    f(work);
  }
}

}  // namespace quire::cuda
