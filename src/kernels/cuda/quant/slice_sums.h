// A warp's sums of a slice of K, for products of quantized weights with few rows. If it takes few
// instructions, its time is that of reading the codes once.
#pragma once

#include "kernels/cuda/quant/quant_stream.h"

namespace quire::cuda {

// A lane's part of a warp's inputs: for each row tile the operands of a unit's two products, or of
// a chunk's four if there are registers for them.
template <int kRowTiles, class Items>
class SliceInputs {
 public:
  static constexpr int kUnits = kRowTiles <= 2 ? 2 : 1;  // at a time

  // Begins at a chunk.
  QUIRE_DEVICE SliceInputs(const typename Items::Args& args, const Items& items, int item,
                           int chunk) {
    const int lane = ptx::thread_index() % 32;
    const int first = chunk * static_cast<int>(kQuantTileInputs) + lane % 4 * 8;
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r)
      from_[r] = items.input_row(args, item, r * 8 + lane / 4) + first;
    if constexpr (!Items::kPadsInputs) left_ = static_cast<int>(args.k) - first;
  }
  QUIRE_DEVICE void load() {
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int unit = 0; unit < kUnits; ++unit) {
        const int at = at_ + unit * static_cast<int>(kQuantUnitInputs);
        pairs_[r][unit] = Items::kPadsInputs || at < left_
                              ? *reinterpret_cast<const Pairs*>(from_[r] + at)
                              : Pairs{};
      }
    }
    at_ += kUnits * kQuantUnitInputs;
  }
  // Returns operand `half` (0 or 1) of product `j` of the chunk.
  QUIRE_DEVICE uint32_t at(int r, int j, int half) const {
    return pairs_[r][j / 2 % kUnits].at[j % 2 * 2 + half];
  }

 private:
  using Pairs = Elements<4, uint32_t>;

  const bfloat16* from_[kRowTiles];
  int at_ = 0;
  int left_ = 0;  // inputs of the row from there on, if rows may end inside a chunk
  Pairs pairs_[kRowTiles][kUnits];
};

// Sums a warp's slice for 16 kOutTiles outputs and 8 kRowTiles rows. With minima, the inputs of a
// group are summed too, by a product with ones.
template <CodeKind kCode, bool kHasMins, int kOutTiles, int kRowTiles, int kStages,
          class Items = QuantItems>
class SliceSums {
 public:
  using Stream = QuantStream<kCode, kHasMins, kOutTiles, kStages, Items>;
  using Args = typename Items::Args;

  // The slice is chunks [begin, end).
  QUIRE_DEVICE SliceSums(const Args& args, const Items& items, int begin, int end, uint8_t* ring)
      : args_(args),
        items_(items),
        begin_(begin),
        end_(end),
        first_group_left_(chunks_of_first_group(args, begin_)),
        stream_(args, items, 0, begin_, end_, ring) {}

  QUIRE_DEVICE void sum_item(int item) {
    clear(total_);
    clear(partial_);
    clear(inputs_);
    const int per_group = args_.chunks_per_group;
    int group_left = first_group_left_;
    Inputs x(args_, items_, item, begin_);
    if (begin_ < end_) x.load();
    for (int chunk = begin_; chunk < end_; ++chunk) {
      stream_.next();
      TileCodes<kCode> codes[kOutTiles];
#pragma unroll
      for (int o = 0; o < kOutTiles; ++o) codes[o] = stream_.codes(o);
      add_unit(codes, x, 0);
      if (!scales_codes(kCode) && per_group == 0) end_group(0);
      if constexpr (x.kUnits == 1) x.load();
      add_unit(codes, x, 1);
      if (chunk + 1 < end_) x.load();
      if ((--group_left == 0 && !scales_codes(kCode)) || chunk + 1 == end_) {
        end_group(per_group == 0 ? 1 : 0);
        group_left = per_group == 0 ? 1 : per_group;
      }
    }
  }

  // Returns the total of output tile o, row tile r, register i.
  QUIRE_DEVICE float total(int o, int r, int i) const { return total_[o][r][i]; }

 private:
  using Sums = float[kOutTiles][kRowTiles][4];
  using Inputs = SliceInputs<kRowTiles, Items>;
  using InputSums = float[1][kHasMins ? kRowTiles : 1][4];

  template <int kTiles, int kRows>
  QUIRE_DEVICE static void clear(float (&sums)[kTiles][kRows][4]) {
#pragma unroll
    for (auto& rows : sums)
#pragma unroll
      for (auto& tile : rows)
#pragma unroll
        for (float& x : tile) x = 0.0f;
  }

  QUIRE_DEVICE void add_unit(const TileCodes<kCode> (&codes)[kOutTiles], const Inputs& x,
                             int unit) {
    const int group = args_.chunks_per_group == 0 ? unit : 0;
#pragma unroll
    for (int o = 0; o < kOutTiles; ++o) {
      const TileZeros zeros = stream_.zeros(o, group);
#pragma unroll
      for (int j = 2 * unit; j < 2 * unit + 2; ++j) {
        uint32_t a[4];
        decode_product<kCode>(codes[o], zeros, j, a);
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r)
          ptx::multiply_tiles(partial_[o][r], a, x.at(r, j, 0), x.at(r, j, 1));
      }
    }
    if constexpr (kHasMins) {
      constexpr uint32_t kOnes[4] = {0x3f803f80u, 0x3f803f80u, 0x3f803f80u, 0x3f803f80u};
#pragma unroll
      for (int j = 2 * unit; j < 2 * unit + 2; ++j)
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r)
          ptx::multiply_tiles(inputs_[0][r], kOnes, x.at(r, j, 0), x.at(r, j, 1));
    }
  }

  // `group` is 0 or 1, as a stage has one or two groups.
  QUIRE_DEVICE void end_group(int group) {
#pragma unroll
    for (int o = 0; o < kOutTiles; ++o) {
      const auto scales = stream_.scales(o, group);
      add_scaled(total_[o], partial_[o], scales.low, scales.high);
      if constexpr (kHasMins) {
        const auto mins = stream_.mins(o, group);
        add_scaled(total_[o], inputs_[0], -mins.low, -mins.high);
      }
    }
    clear(partial_);
    clear(inputs_);
  }
  QUIRE_DEVICE static void add_scaled(float (&total)[kRowTiles][4],
                                      const float (&sums)[kRowTiles][4], float low, float high) {
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        total[r][i] = ptx::multiply_add(sums[r][i], i < 2 ? low : high, total[r][i]);
  }

  const Args& args_;
  const Items& items_;
  int begin_;  // the first of the slice's chunks
  int end_;
  int first_group_left_;  // chunks
  Stream stream_;
  Sums partial_;      // of the current group
  InputSums inputs_;  // of the current group; for each row the same for every output
  Sums total_;
};

}  // namespace quire::cuda
