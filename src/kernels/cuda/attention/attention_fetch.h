// Functions with which the producer of the Hopper prefill kernel fetches 64 positions of keys or
// values into shared memory, as panels (warpgroup_layout.h).
#pragma once

#include "kernels/cuda/attention/attention_device.h"
#include "kernels/cuda/hopper_code.h"

namespace quire::cuda {

// A piece to fetch: keys or values of 64 positions from `first` on.
struct Fetch {
  const AttentionArgs& args;
  const AttentionItem& item;
  int32_t first;
  bool is_value;

  QUIRE_DEVICE bool is_seen(int32_t position) const {
    return position >= item.begin && position < item.end;
  }
  QUIRE_DEVICE bool is_whole() const {
    return first >= item.begin && first + kAttentionTile <= item.end;
  }
  QUIRE_DEVICE int32_t block_size() const { return 1 << args.block_shift; }
  // Returns how many rows are consecutive in the cache.
  QUIRE_DEVICE int32_t run_rows() const {
    return block_size() < kAttentionTile ? block_size() : kAttentionTile;
  }
  QUIRE_DEVICE int32_t block(int32_t position) const {
    return item.block_table[position >> args.block_shift];
  }
  // Returns the offset of a row in the cache, in elements.
  QUIRE_DEVICE int64_t row_of(int32_t block_of_position, int32_t position) const {
    const int64_t head = int64_t{item.kv_head} << args.block_shift;
    return block_of_position * args.block_stride +
           (head + (position & (block_size() - 1))) * args.head_dim;
  }
  QUIRE_DEVICE int64_t row_at(int32_t position) const { return row_of(block(position), position); }
};

// Fetches the boxes of a piece of which every row is read. One warp calls it.
template <int kHeadDim>
QUIRE_DEVICE void fetch_boxes(const Fetch& fetch, const ptx::TensorMap& map, uint8_t* to,
                              uint64_t* full) {
  constexpr int kPanels = kHeadDim / kPanelDims;
  const int thread = ptx::thread_index();
  if (thread == 0) ptx::arrive_expecting(full, kAttentionTile * kHeadDim * 2);
  // A lane has at most one box: for 8 rows and 256 dims there are 32.
  const int32_t row = thread / kPanels * fetch.run_rows();
  if (row >= kAttentionTile) return;
  const int panel = thread % kPanels;
  const int32_t position = fetch.first + row;
  ptx::copy_box(to + (panel * kAttentionTile + row) * kPanelRowBytes, map, panel * kPanelDims,
                position & (fetch.block_size() - 1), fetch.item.kv_head, fetch.block(position),
                full);
}

// Fetches a piece row by row, with zeros for rows that are not seen and past the dims. One warp
// calls it.
template <int kHeadDim>
QUIRE_DEVICE void fetch_rows(const Fetch& fetch, uint8_t* to) {
  constexpr int kChunks = kHeadDim / 8;
  const uint8_t* cache = fetch.is_value ? fetch.args.value : fetch.args.key;
#pragma unroll 1
  for (int i = ptx::thread_index(); i < kAttentionTile * kChunks; i += 32) {
    const int row = i / kChunks;
    const int chunk = i % kChunks;
    const int32_t position = fetch.first + row;
    const bool valid = fetch.is_seen(position) && chunk * 8 < fetch.args.head_dim;
    const int64_t at = valid ? fetch.row_at(position) + chunk * 8 : 0;
    ptx::copy_async_16(to + panel_offset(row, chunk, kAttentionTile), cache + at * 2, valid);
  }
  ptx::copy_async_commit();
  ptx::copy_async_wait<0>();
}

// The runs of consecutive rows of a piece of e4m3 codes, one for each lane. Only the runs [first,
// end), which are seen, are fetched.
struct CodeRuns {
  int32_t first;
  int32_t end;
};
QUIRE_DEVICE CodeRuns code_runs(const Fetch& fetch) {
  const int32_t rows = fetch.run_rows();
  const int32_t unseen = fetch.item.begin - fetch.first;
  const int32_t seen = fetch.item.end - fetch.first;  // greater than 0
  return {unseen > 0 ? unseen / rows : 0,
          seen < kAttentionTile ? (seen + rows - 1) / rows : kAttentionTile / rows};
}
// Returns the block of the cache that has this lane's run.
QUIRE_DEVICE int32_t block_of_codes(const Fetch& fetch, int lane) {
  const CodeRuns runs = code_runs(fetch);
  const bool has_run = lane >= runs.first && lane < runs.end;
  return has_run ? fetch.block(fetch.first + lane * fetch.run_rows()) : 0;
}
// Fetches the codes unchanged, in rows of head_dim bytes. One warp calls it.
QUIRE_DEVICE void fetch_codes(const Fetch& fetch, int32_t block, int lane, uint8_t* to,
                              uint64_t* full) {
  const CodeRuns runs = code_runs(fetch);
  const int num_bytes = fetch.run_rows() * fetch.args.head_dim;
  if (lane == 0) ptx::arrive_expecting(full, (runs.end - runs.first) * num_bytes);
  if (lane < runs.first || lane >= runs.end) return;
  const uint8_t* cache = fetch.is_value ? fetch.args.value : fetch.args.key;
  const int32_t position = fetch.first + lane * fetch.run_rows();
  ptx::copy_bulk(to + lane * num_bytes, cache + fetch.row_of(block, position), num_bytes, full);
}

// Expands the codes of a piece to bf16. One warp calls it; a lane expands the same 16 dims of every
// kStep-th row.
template <int kHeadDim>
QUIRE_DEVICE void expand_codes(const Fetch& fetch, const uint8_t* codes, int lane, uint8_t* to) {
  using Chunk = Elements<4, uint32_t>;
  constexpr int kDims = 16;
  constexpr int kStep = 32 * kDims / kHeadDim;  // rows
  const int dims = lane % (kHeadDim / kDims);
  const bool has_dims = dims * kDims < fetch.args.head_dim;
#pragma unroll 2
  for (int row = lane / (kHeadDim / kDims); row < kAttentionTile; row += kStep) {
    Chunk in{};
    if (has_dims && fetch.is_seen(fetch.first + row)) {
      in = *reinterpret_cast<const Chunk*>(codes + row * fetch.args.head_dim + dims * kDims);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      Chunk out;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const Bf16Pairs pairs = widen_pairs(in.at[half * 2 + i]);
        out.at[i * 2] = ptx::permute_bytes(pairs.even, pairs.odd, 0x5410);
        out.at[i * 2 + 1] = ptx::permute_bytes(pairs.even, pairs.odd, 0x7632);
      }
      *reinterpret_cast<Chunk*>(to + panel_offset(row, dims * 2 + half, kAttentionTile)) = out;
    }
  }
}

}  // namespace quire::cuda
