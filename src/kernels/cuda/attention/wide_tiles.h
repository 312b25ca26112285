// Functions with which a block of the wide kernel copies keys and values into shared memory.
#pragma once

#include "kernels/cuda/attention/attention_memory.h"
#include "kernels/cuda/attention/decode_tiles.h"

namespace quire::cuda {

// The sizes of a wide kernel for 8 kRowTiles query rows, and its shared memory: a ring of kSlots
// tiles, and behind them what DecodeShape has there. A tile is the keys of 64 positions or their
// values; values that are the first dims of their keys have no tile of their own. Names that
// DecodeShape also has mean the same.
template <int kKeyDims, int kValueDims, bool kIsLatentOf, bool kFp8, int kRowTilesOf, int kSlotsOf>
struct WideShape {
  static constexpr int kHeadDim = kKeyDims;
  static constexpr bool kIsFp8 = kFp8;
  static constexpr int kElement = kFp8 ? 1 : 2;  // bytes
  static constexpr bool kIsLatent = kIsLatentOf;
  static constexpr int kSlots = kSlotsOf;
  static constexpr int kRowTiles = kRowTilesOf;
  static constexpr int kRows = kRowTiles * 8;
  static constexpr int kWarps = 8;
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kRowBytes = kHeadDim * kElement;
  static constexpr int kChunks = kRowBytes / 16;
  static constexpr int kTileBytes = kAttentionTile * kRowBytes;
  static constexpr int kWeights = kSlots * kTileBytes;
  static constexpr int kMaxima = kWeights + kRows * kAttentionTile * 2;
  // Each row tile has warps of its own for its scores, so that its queries fit into registers.
  static constexpr int kScoreWarps = kWarps / kRowTiles;
  static constexpr int kScoreRowTiles = 1;
  static constexpr int kScoreTiles = kAttentionTile / 16 / kScoreWarps;
  static constexpr int kScoreChains = 4;
  static constexpr int kWork = kMaxima + kRows * kScoreWarps * 4;
  static constexpr int kSharedBytes = kWork + 128;  // a DecodeWork
  static constexpr int kSumTiles = kValueDims / 16 / kWarps;
  static constexpr bool kIsPacked = false;
  static constexpr int kTilesAtOnce = 1;
  static_assert(kChunks % 8 == 0);
  static_assert(kSharedBytes <= wide_attention_bytes(kRowBytes, kSlots));
};

// A RingFetcher copies the tiles of the positions [work.begin, work.end) in order, keys before
// values, as many ahead as there are slots. A block of the cache has at least eight tokens, so the
// eight rows that a warp copies are consecutive.
template <typename Shape>
class RingFetcher {
 public:
  // Starts the first copies. The previous content of the ring must no longer be read.
  QUIRE_DEVICE RingFetcher(const AttentionArgs& args, const DecodeWork& work)
      : args_(args), work_(work), first_(work.begin / kAttentionTile * kAttentionTile) {
    rows_ = locate_rows();
#pragma unroll 1
    for (int i = 0; i < Shape::kSlots - 1; ++i) fetch();
  }

  // Returns the next tile when it has been copied; the one before it must no longer be read. The
  // whole block calls this, and afterwards sees what any thread wrote to shared memory before.
  QUIRE_DEVICE const uint8_t* take() {
    if constexpr (Shape::kSlots == 1) {
      ptx::sync_threads();
      fetch();
      ptx::copy_async_wait<0>();
      ptx::sync_threads();
    } else {
      ptx::copy_async_wait<Shape::kSlots - 2>();
      ptx::sync_threads();
      fetch();
    }
    const uint8_t* tile = slot(taken_);
    taken_ = next(taken_);
    return tile;
  }

 private:
  static constexpr int kRunRows = kAttentionTile / Shape::kWarps;
  static_assert(kRunRows == 8);

  QUIRE_DEVICE static uint8_t* slot(int number) {
    return ptx::shared_memory() + number * Shape::kTileBytes;
  }
  QUIRE_DEVICE static int next(int number) { return number + 1 == Shape::kSlots ? 0 : number + 1; }

  // Returns the offset of the warp's rows of the tile at first_ in the cache, in elements.
  QUIRE_DEVICE int64_t locate_rows() const {
    const int32_t position = first_ + ptx::thread_index() / 32 * kRunRows;
    if (position >= work_.end || position + kRunRows <= work_.begin) return 0;
    const int64_t block = work_.item.block_table[position >> args_.block_shift];
    const int32_t row = position & ((1 << args_.block_shift) - 1);
    const int64_t head = int64_t{work_.item.kv_head} << args_.block_shift;
    return block * args_.block_stride + (head + row) * args_.head_dim;
  }

  // Starts copying a tile, if one is left. Closes a group of copies in either case.
  QUIRE_DEVICE void fetch() {
    if (first_ < work_.end) {
      copy_rows(is_value_ ? args_.value : args_.key, slot(fetched_));
      if (Shape::kIsLatent || is_value_) {
        first_ += kAttentionTile;
        rows_ = locate_rows();  // early, so that the next copies do not wait for the block table
      }
      is_value_ = !Shape::kIsLatent && !is_value_;
    }
    fetched_ = next(fetched_);
    ptx::copy_async_commit();
  }
  // Copies the warp's rows, with zeros for rows that are not seen and past the dims.
  QUIRE_DEVICE void copy_rows(const uint8_t* cache, uint8_t* to) const {
    const int lane = ptx::thread_index() % 32;
    const int first_row = ptx::thread_index() / 32 * kRunRows;
#pragma unroll 2
    for (int row = 0; row < kRunRows; ++row) {
      const int32_t position = first_ + first_row + row;
      const bool is_seen = position >= work_.begin && position < work_.end;
      const uint8_t* from = cache + (rows_ + row * args_.head_dim) * Shape::kElement;
#pragma unroll
      for (int chunk = lane; chunk < Shape::kChunks; chunk += 32) {
        const bool valid = is_seen && chunk * (16 / Shape::kElement) < args_.head_dim;
        ptx::copy_async_16(to + swizzled_offset(first_row + row, chunk, Shape::kChunks),
                           valid ? from + chunk * 16 : cache, valid);
      }
    }
  }

  const AttentionArgs& args_;
  const DecodeWork& work_;
  int32_t first_;  // the position of the next tile to fetch
  int64_t rows_;   // the offset of the warp's rows of that tile
  bool is_value_ = false;
  int fetched_ = 0;  // slots
  int taken_ = 0;
};

}  // namespace quire::cuda
