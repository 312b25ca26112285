// The producer of the Hopper prefill kernel brings 64 positions of keys or values into shared
// memory with these functions, as panels (warpgroup_layout.h).
#pragma once

#include "kernels/cuda/attention/attention_device.h"
#include "kernels/cuda/hopper_code.h"

namespace quire::cuda {

inline constexpr int kGroupThreads = 128;  // of a warpgroup

// A Fetch is a piece that is to be fetched: positions from `first` on of keys or values.
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
  // Returns how many rows lie one after another in the cache.
  QUIRE_DEVICE int32_t run_rows() const {
    return block_size() < kAttentionTile ? block_size() : kAttentionTile;
  }
  QUIRE_DEVICE int32_t block(int32_t position) const {
    return item.block_table[position >> args.block_shift];
  }
  // Returns elements from the start of the cache.
  QUIRE_DEVICE int64_t row_at(int32_t position) const {
    const int64_t head = int64_t{item.kv_head} << args.block_shift;
    return block(position) * args.block_stride +
           (head + (position & (block_size() - 1))) * args.head_dim;
  }
};

// Fetches the boxes of a piece that every row sees. One warp calls it.
template <int kHeadDim>
QUIRE_DEVICE void fetch_boxes(const Fetch& fetch, const ptx::TensorMap& map, uint8_t* to,
                              uint64_t* full) {
  constexpr int kPanels = kHeadDim / kPanelDims;
  const int thread = ptx::thread_index();
  if (thread == 0) ptx::arrive_expecting(full, kAttentionTile * kHeadDim * 2);
  const int32_t rows = fetch.run_rows();
  for (int i = thread; i < kAttentionTile / rows * kPanels; i += 32) {
    const int32_t row = i / kPanels * rows;
    const int panel = i % kPanels;
    const int32_t position = fetch.first + row;
    ptx::copy_box(to + (panel * kAttentionTile + row) * kPanelRowBytes, map, panel * kPanelDims,
                  position & (fetch.block_size() - 1), fetch.item.kv_head, fetch.block(position),
                  full);
  }
}

// Fetches a piece row by row, with zeros where it is not seen and past the dims. One warp calls it.
template <int kHeadDim>
QUIRE_DEVICE void fetch_rows(const Fetch& fetch, uint8_t* to) {
  constexpr int kChunks = kHeadDim / 8;
  const uint8_t* cache = fetch.is_value ? fetch.args.value : fetch.args.key;
#pragma unroll 2
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

// Fetches the e4m3 codes of a piece as they lie, rows of head_dim bytes, only of blocks that are
// seen.
QUIRE_DEVICE void fetch_codes(const Fetch& fetch, uint8_t* to, uint64_t* full) {
  const int thread = ptx::thread_index();
  if (thread >= 32) return;
  const int32_t rows = fetch.run_rows();
  const int num_bytes = rows * fetch.args.head_dim;
  const uint8_t* cache = fetch.is_value ? fetch.args.value : fetch.args.key;
  int num_runs = 0;
  for (int i = 0; i < kAttentionTile / rows; ++i) {
    const int32_t position = fetch.first + i * rows;
    if (position + rows <= fetch.item.begin || position >= fetch.item.end) continue;
    ++num_runs;
    if (i == thread)
      ptx::copy_bulk(to + i * num_bytes, cache + fetch.row_at(position), num_bytes, full);
  }
  if (thread == 0) ptx::arrive_expecting(full, num_runs * num_bytes);
}

template <int kHeadDim>
QUIRE_DEVICE void expand_codes(const Fetch& fetch, const uint8_t* codes, uint8_t* to) {
  using Chunk = Elements<4, uint32_t>;
  constexpr int kPairs = kHeadDim / 16;
  for (int i = ptx::thread_index(); i < kAttentionTile * kPairs; i += kGroupThreads) {
    const int row = i / kPairs;
    const int pair = i % kPairs;
    const bool valid = fetch.is_seen(fetch.first + row) && pair * 16 < fetch.args.head_dim;
    Bf16Chunks chunks{};
    if (valid) {
      chunks = expand_e4m3(
          *reinterpret_cast<const Chunk*>(codes + row * fetch.args.head_dim + pair * 16));
    }
#pragma unroll
    for (int j = 0; j < 2; ++j)
      *reinterpret_cast<Chunk*>(to + panel_offset(row, pair * 2 + j, kAttentionTile)) =
          chunks.at[j];
  }
}

}  // namespace quire::cuda
