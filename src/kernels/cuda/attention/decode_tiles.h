// Functions with which a block of the decode kernel copies keys and values into shared memory, and
// reads them as operands of tensor cores.
#pragma once

#include "kernels/cuda/attention/attention_device.h"

namespace quire::cuda {

// The sizes of a decode kernel, and its shared memory: kStages tiles of keys and of values as they
// are in the cache, the softmax weights of a tile as [row][position] in bf16, and the greatest
// score of each row and warp.
template <int kHeadDimOf, bool kFp8, int kRowTilesOf, int kStagesOf = 2>
struct DecodeShape {
  static constexpr int kHeadDim = kHeadDimOf;
  static constexpr bool kIsFp8 = kFp8;
  static constexpr int kRowTiles = kRowTilesOf;  // of 8 packed query rows
  static constexpr int kWarps = kHeadDim > 64 ? 4 : 2;
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kStages = kStagesOf;
  static constexpr int kElement = kFp8 ? 1 : 2;  // bytes
  static constexpr int kRowBytes = kHeadDim * kElement;
  static constexpr int kChunks = kRowBytes / 16;  // of a row
  static constexpr int kTileBytes = kAttentionTile * kRowBytes;
  static constexpr int kValues = kStages * kTileBytes;
  static constexpr int kWeights = 2 * kValues;
  static constexpr int kMaxima = kWeights + kRowTiles * 8 * kAttentionTile * 2;
  static constexpr int kWork = kMaxima + kRowTiles * 8 * kWarps * 4;
  static constexpr int kSharedBytes = kWork + 128;  // a DecodeWork
  // How many warps fit the registers of an SM; expanding codes needs many registers.
  static constexpr int kWarpsPerSm = kHeadDim > 128                   ? 8
                                     : kRowTiles > 1                  ? 12
                                     : kHeadDim > 64 && kElement == 1 ? 20
                                                                      : 16;
  // Each warp takes some positions of the scores and some dims of the sums, in tiles of 16. The
  // score of a position and row is added up in one chain over the dims.
  static constexpr int kScoreWarps = kWarps;
  static constexpr int kScoreRowTiles = kRowTiles;
  static constexpr int kScoreTiles = kAttentionTile / 16 / kScoreWarps;
  static constexpr int kScoreChains = 1;
  static constexpr int kSumTiles = kHeadDim / 16 / kWarps;
  static constexpr bool kIsPacked = false;  // an item has the rows of several requests
  static constexpr int kTilesAtOnce = 1;    // each has warps of its own for its scores
};

// The same for items of packs, of a bf16 cache. Each half of the warps has the scores of half of
// the rows, so that the queries of so many rows fit into registers.
template <int kHeadDim, int kStages>
struct PackShape : DecodeShape<kHeadDim, false, pack_rows(kHeadDim, false) / 8, kStages> {
  using Base = DecodeShape<kHeadDim, false, pack_rows(kHeadDim, false) / 8, kStages>;
  static constexpr int kScoreWarps = Base::kWarps / 2;
  static constexpr int kScoreRowTiles = Base::kRowTiles / 2;
  static constexpr int kScoreTiles = kAttentionTile / 16 / kScoreWarps;
  static constexpr bool kIsPacked = true;
};

// Returns the offset of a chunk in a tile, in bytes. Readers call it for chunks 0 and 1 of a row, and
// get the other pairs of chunks from pair_offset(). A tile is rows of 16-byte chunks, swizzled as
// swizzle.h says. If rows have only four chunks, two rows share the banks that one row has there.
template <int kChunks>
QUIRE_HOST_DEVICE constexpr int chunk_offset(int row, int chunk) {
  if constexpr (kChunks == 4) return (row * 4 + (chunk ^ (row / 2 & 3))) * 16;
  return swizzled_offset(row, chunk, kChunks);
}
QUIRE_HOST_DEVICE constexpr int pair_offset(int offset, int pair) {
  return (offset ^ pair % 4 * 32) + pair / 4 * 128;
}

// Returns the offset that a lane gives to load_matrices() for 16 rows of a pair of chunks: rows 0-7
// and 8-15 of the first chunk, then those of the second.
template <typename Shape>
QUIRE_DEVICE int rows_first_offset() {
  const int lane = ptx::thread_index() % 32;
  return chunk_offset<Shape::kChunks>(lane % 16, lane / 16);
}
// Returns the same for rows 0-7 of both chunks, then rows 8-15.
template <typename Shape>
QUIRE_DEVICE int chunks_first_offset() {
  const int lane = ptx::thread_index() % 32;
  return chunk_offset<Shape::kChunks>(lane / 16 * 8 + lane % 8, lane / 8 % 2);
}

// What a block does next: an item over one split of the context.
struct DecodeWork {
  AttentionItem item;
  RequestCut cut;
  int32_t split = 0;
  int32_t begin = 0;  // the positions [begin, end) of the split that the item sees
  int32_t end = 0;
  int32_t first_query = 0;  // the position of the item's first row
  bool exists = false;
  // For an item of a pack: its requests, each with the rows of one token. `item` is that of the
  // first.
  const int32_t* requests = nullptr;
  int32_t num_requests = 0;
};

// A TileFetcher copies tiles of ascending positions, and reads no row that the work does not see.
// Blocks have at least eight tokens, so each run of eight rows is consecutive in the cache. Each
// lane stores where one of 32 runs begins.
template <typename Shape>
class TileFetcher {
 public:
  QUIRE_DEVICE TileFetcher(const AttentionArgs& args, const DecodeWork& work)
      : args_(args), block_table_(work.item.block_table), begin_(work.begin), end_(work.end) {
    const int lane = ptx::thread_index() % 32;
    warp_ = ptx::thread_index() / 32;
    lane_row_ = lane / Shape::kChunks;
    lane_chunk_ = lane % Shape::kChunks;
    row_bytes_ = args.head_dim * Shape::kElement;
    head_at_ = (work.item.kv_head << args.block_shift) * row_bytes_;
    window_ = begin_ / kWindow;
    runs_ = locate_run(window_);
    next_runs_ = locate_run(window_ + 1);
  }

  // Starts copying a tile, with zeros for rows that are not seen and past the dims, as two groups
  // of copies: keys and values.
  QUIRE_DEVICE void fetch(int32_t first, uint8_t* keys, uint8_t* values) {
    move_to(first);
    if (is_whole(first)) {
      fetch_runs(first, keys, values);
    } else {
      for_each_row(first, runs_, [&](int to, int64_t from, bool valid) {
        ptx::copy_async_16(keys + to, args_.key + from, valid);
        ptx::copy_async_16(values + to, args_.value + from, valid);
      });
      ptx::copy_async_commit();
    }
    ptx::copy_async_commit();
  }
  // Starts to load the first keys and values into the L2 cache. The values are not used, since
  // earlier kernels may still write them.
  QUIRE_DEVICE void prefetch() const {
#pragma unroll 1
    for (int row = ptx::thread_index(); row < kWindow; row += Shape::kThreads) {
      const int32_t position = window_ * kWindow + row;
      const int64_t from = ptx::shuffle(runs_, row / 8) + row % 8 * row_bytes_;
      if (position < begin_ || position >= end_) continue;
      for (int32_t byte = 0; byte < row_bytes_; byte += kLineBytes) {
        ptx::prefetch(args_.key + from + byte);
        ptx::prefetch(args_.value + from + byte);
      }
    }
  }
  // Does the same as fetch() for `cache`, the keys or the values, without closing a group of
  // copies. The tile must not be before that of the last move_to(), nor 256 positions or more after
  // it.
  QUIRE_DEVICE void copy_tile(int32_t first, const uint8_t* cache, uint8_t* to) const {
    const int64_t runs = first / kWindow == window_ ? runs_ : next_runs_;
    if (is_whole(first)) {
      int64_t from[kRuns];
      find_runs(first, runs, from);
      copy_runs(cache, from, to);
    } else {
      for_each_row(first, runs, [&](int at, int64_t from, bool valid) {
        ptx::copy_async_16(to + at, cache + from, valid);
      });
    }
  }
  QUIRE_DEVICE void move_to(int32_t first) {
    if (first / kWindow == window_) return;
    ++window_;
    runs_ = next_runs_;
    next_runs_ = locate_run(window_ + 1);
  }

 private:
  static constexpr int kWindow = 32 * 8;  // positions
  static constexpr int kLineBytes = 128;  // of the L2 cache
  static constexpr int kRowsAtOnce = 32 / Shape::kChunks;
  static constexpr int kRuns = kAttentionTile / 8 / Shape::kWarps;  // of a warp

  // Returns the offset of the lane's run of a window in the cache, in bytes.
  QUIRE_DEVICE int64_t locate_run(int32_t window) const {
    const int32_t position = window * kWindow + ptx::thread_index() % 32 * 8;
    if (position >= end_ || position + 8 <= begin_) return 0;
    const int64_t block = block_table_[position >> args_.block_shift];
    const int32_t row = position & ((1 << args_.block_shift) - 1);
    return block * args_.block_stride * Shape::kElement + head_at_ + row * row_bytes_;
  }
  // Returns whether all rows are read and have no padding.
  QUIRE_DEVICE bool is_whole(int32_t first) const {
    return first >= begin_ && first + kAttentionTile <= end_ && row_bytes_ == Shape::kRowBytes;
  }
  QUIRE_DEVICE void find_runs(int32_t first, int64_t runs, int64_t (&from)[kRuns]) const {
    const int32_t lane_at = lane_row_ * Shape::kRowBytes + lane_chunk_ * 16;
#pragma unroll
    for (int i = 0; i < kRuns; ++i)
      from[i] = ptx::shuffle(runs, (first >> 3 & 31) + warp_ * kRuns + i) + lane_at;
  }
  QUIRE_DEVICE void fetch_runs(int32_t first, uint8_t* keys, uint8_t* values) const {
    int64_t from[kRuns];
    find_runs(first, runs_, from);
    copy_runs(args_.key, from, keys);
    ptx::copy_async_commit();
    copy_runs(args_.value, from, values);
  }
  QUIRE_DEVICE void copy_runs(const uint8_t* cache, const int64_t (&from)[kRuns],
                              uint8_t* to) const {
#pragma unroll
    for (int i = 0; i < kRuns; ++i) {
#pragma unroll
      for (int row = 0; row < 8; row += kRowsAtOnce) {
        ptx::copy_async_16(to + (warp_ * kRuns + i) * 8 * Shape::kRowBytes +
                               chunk_offset<Shape::kChunks>(row + lane_row_, lane_chunk_),
                           cache + from[i] + row * Shape::kRowBytes, true);
      }
    }
  }
  // Calls f for each of the lane's pieces of a tile: its offset in the tile, its offset in the
  // cache, and whether it is read.
  template <typename F>
  QUIRE_DEVICE void for_each_row(int32_t first, int64_t runs, F&& f) const {
#pragma unroll 1
    for (int row = warp_ * kRowsAtOnce + lane_row_; row < kAttentionTile;
         row += kRowsAtOnce * Shape::kWarps) {
      const int32_t position = first + row;
      const int64_t run = ptx::shuffle(runs, position >> 3 & 31);
      const bool valid = position >= begin_ && position < end_ && lane_chunk_ * 16 < row_bytes_;
      const int64_t from = valid ? run + row % 8 * row_bytes_ + lane_chunk_ * 16 : 0;
      f(chunk_offset<Shape::kChunks>(row, lane_chunk_), from, valid);
    }
  }

  const AttentionArgs& args_;
  const int32_t* block_table_;
  int32_t begin_;
  int32_t end_;
  int32_t warp_;
  int32_t lane_row_;
  int32_t lane_chunk_;
  int32_t row_bytes_;
  int32_t head_at_;  // offset in a block, in bytes
  int32_t window_;
  int64_t runs_;
  int64_t next_runs_;
};

}  // namespace quire::cuda
