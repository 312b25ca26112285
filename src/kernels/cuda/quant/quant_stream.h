// A warp's walk through a quantized weight: chunk after chunk of its part of K, for some tiles at
// once. The data comes through the warp's own ring in shared memory, with enough in flight to keep
// memory busy. The kernels that use it are limited by instructions, so addresses are updated
// incrementally, and nothing is computed per chunk that can be avoided.
#pragma once

#include "kernels/cuda/quant/quant_args.h"
#include "kernels/cuda/quant/quant_codes.h"

namespace quire::cuda {

// A stage of the ring has one chunk of kTiles tiles: the codes and, for each tile, the scales, mins
// and zeros of one group, or of two if a group is half a chunk. Items is QuantItems, or a class
// with the same functions.
template <CodeKind kCode, bool kHasMins, int kTiles, int kStages, class Items = QuantItems>
class QuantStream {
 public:
  using Args = typename Items::Args;
  static constexpr int kTileBytes = 128 * code_bits(kCode);
  static constexpr int kSides = kTiles * kTileBytes;
  static constexpr int kScaleBytes = scales_codes(kCode) ? 1 : int{sizeof(float)};
  static constexpr int kGroupBytes = 16 * kScaleBytes;
  static constexpr int kMins = 2 * kGroupBytes;  // after the scales
  static constexpr int kZeros = kMins + (kHasMins ? 2 * kGroupBytes : 0);
  static constexpr int kSideBytes = kZeros + 32;
  static constexpr int kStageBytes = kSides + kTiles * kSideBytes;
  static constexpr int kRingBytes = kStages * kStageBytes;

  // Streams chunks [begin, end) of kTiles tiles from `tile` on, for every item from the block's
  // first on.
  QUIRE_DEVICE QuantStream(const Args& args, const Items& items, int tile, int begin, int end,
                           uint8_t* ring)
      : args_(args),
        items_(items),
        tile_(tile),
        begin_(begin),
        end_(end),
        per_group_(args.chunks_per_group),
        first_group_(per_group_ == 0 ? begin * 2 : begin / per_group_),
        first_group_left_(chunks_of_first_group(args, begin)),
        item_(begin < end ? items.first() : items.count),
        zeros_(tile_zeros<kCode>(args.zero, args.zero)) {
    const int lane = ptx::thread_index() % 32;
    ring_end_ = ring + lane * 16 + kRingBytes;
    fetched_ = ring + lane * 16;
    stage_ = fetched_;
    pair_ = kSides + lane / 4 * kScaleBytes - lane * 16;
    zero_ = kSides + kZeros + lane / 4 - lane * 16;
    const int groups = per_group_ == 0 ? 2 : 1;
    const int copies = groups * kGroupBytes / 16;
    const auto side = [&](int first_lane, int lanes, int64_t at, int group_bytes, int to) {
      if (lane < first_lane || lane >= first_lane + lanes) return;
      side_base_ = at + (lane - first_lane) * 16;
      side_bytes_ = group_bytes;
      side_to_ = kSides + to - first_lane * 16;
    };
    side(0, copies, args.layout.scales_at, kGroupBytes, 0);
    if constexpr (kHasMins) side(8, copies, args.layout.mins_at, kGroupBytes, kMins);
    if (args.has_zeros) side(16, groups, args.layout.zeros_at, 16, kZeros);
    open_item();
#pragma unroll 1
    for (int i = 0; i < kStages - 1; ++i) fetch();
  }

  // Waits for the next chunk, and starts to fetch one more, into the stage that was read last.
  QUIRE_DEVICE void next() {
    ptx::copy_async_wait<kStages - 2>();
    ptx::sync_warp();
    fetch();
    chunk_ = stage_;
    stage_ = next_stage(stage_);
  }

  // Returns the codes of the current chunk.
  QUIRE_DEVICE TileCodes<kCode> codes(int tile) const {
    return load_codes<kCode>(chunk_ + tile * kTileBytes);
  }
  // Values for the lane's two outputs. `group` is 0 or 1, as a chunk has one or two groups.
  struct Pair {
    float low, high;
  };
  QUIRE_DEVICE Pair scales(int tile, int group) const {
    if constexpr (scales_codes(kCode)) {
      return {0x1p64f, 0x1p64f};
    } else {
      const auto* pair =
          reinterpret_cast<const float*>(chunk_ + pair_ + tile * kSideBytes + group * kGroupBytes);
      return {pair[0], pair[8]};
    }
  }
  QUIRE_DEVICE Pair mins(int tile, int group) const {
    const auto* pair = reinterpret_cast<const float*>(chunk_ + pair_ + tile * kSideBytes + kMins +
                                                      group * kGroupBytes);
    return {pair[0], pair[8]};
  }
  QUIRE_DEVICE TileZeros zeros(int tile, int group) const {
    if constexpr (scales_codes(kCode)) {
      const uint8_t* powers = chunk_ + pair_ + tile * kSideBytes + group * kGroupBytes;
      return tile_powers(powers[0], powers[8]);
    } else {
      if (!args_.has_zeros) return zeros_;
      const uint8_t* zeros = chunk_ + zero_ + tile * kSideBytes + group * 16;
      return tile_zeros<kCode>(zeros[0], zeros[8]);
    }
  }

 private:
  QUIRE_DEVICE uint8_t* next_stage(uint8_t* stage) const {
    stage += kStageBytes;
    return stage == ring_end_ ? stage - kRingBytes : stage;
  }

  // Tiles past the end repeat the last one; their outputs are not stored.
  QUIRE_DEVICE void open_item() {
    if (item_ >= items_.count) return;
    const QuantWeightLayout& layout = args_.layout;
    const auto last_tile = static_cast<int>(layout.num_tiles) - 1;
    const int wanted_tile = items_.first_tile(item_) + tile_;
    const int tile = wanted_tile < last_tile ? wanted_tile : last_tile;
    chunks_left_ = end_ - begin_;
    const uint8_t* weight = items_.weight(args_, item_);
    codes_ = weight + (int64_t{tile} * layout.num_chunks + begin_) * kTileBytes +
             ptx::thread_index() % 32 * 16;
    group_left_ = first_group_left_;
    side_ = weight + side_base_ + (int64_t{tile} * layout.num_groups + first_group_) * side_bytes_;
#pragma unroll
    for (int i = 1; i < kTiles; ++i) {
      codes_at_[i] = items_.distance(item_, i, last_tile - tile,
                                     static_cast<int>(layout.num_chunks) * kTileBytes);
      side_at_[i] = items_.distance(item_, i, last_tile - tile,
                                    static_cast<int>(layout.num_groups) * side_bytes_);
    }
  }

  // Starts to fetch the next chunk, if there is one.
  QUIRE_DEVICE void fetch() {
    if (item_ < items_.count) {
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const uint8_t* from = codes_ + codes_at_[tile];
#pragma unroll
        for (int at = 0; at < kTileBytes; at += 512)
          ptx::copy_async_16(fetched_ + tile * kTileBytes + at, from + at, true);
        if (side_bytes_ != 0)
          ptx::copy_async_16(fetched_ + side_to_ + tile * kSideBytes, side_ + side_at_[tile], true);
      }
      codes_ += kTileBytes;
      if (--group_left_ == 0) {
        side_ += per_group_ == 0 ? 2 * side_bytes_ : side_bytes_;
        group_left_ = per_group_ == 0 ? 1 : per_group_;
      }
      if (--chunks_left_ == 0) {
        item_ += items_.step();
        open_item();
      }
    }
    ptx::copy_async_commit();
    fetched_ = next_stage(fetched_);
  }

  const Args& args_;
  const Items& items_;
  int tile_;  // the first tile within an item
  int begin_;
  int end_;
  int per_group_;  // chunks
  int first_group_;
  int first_group_left_;
  // The position of the next fetch.
  int item_;
  int chunks_left_ = 0;
  int group_left_ = 0;              // chunks
  const uint8_t* codes_ = nullptr;  // the lane's 16 bytes
  const uint8_t* side_ = nullptr;   // the lane's 16 bytes of scales, mins or zeros
  // Offsets of the tiles from the first.
  typename Items::Distance codes_at_[kTiles] = {};
  typename Items::Distance side_at_[kTiles] = {};
  // What the lane fetches in addition to codes.
  int64_t side_base_ = 0;  // offset in the weight
  int side_bytes_ = 0;     // of a group; 0: the lane fetches nothing
  int side_to_ = 0;        // offset from the lane's codes in a stage
  // The address of the lane's 16 bytes of codes in a stage of the ring.
  uint8_t* ring_end_;
  uint8_t* fetched_;
  uint8_t* stage_;
  const uint8_t* chunk_ = nullptr;
  int pair_;  // from there to the lane's first scale
  int zero_;
  TileZeros zeros_;  // if all groups have the same
};

}  // namespace quire::cuda
