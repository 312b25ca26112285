// A warp's sums of 16 outputs with quantized weights for the rows of a panel, on Hopper. The warp
// decodes codes into registers, from which tensor cores multiply them with panels in shared memory.
// The operand of a product is decoded while the product before it runs.
#pragma once

#include "kernels/cuda/hopper_code.h"
#include "kernels/cuda/quant/quant_stream.h"

namespace quire::cuda {

// Initializes the barriers of the block's ring of panels.
template <class S>
QUIRE_DEVICE void init_panel_ring() {
  if (ptx::thread_index() == 0) {
    for (int i = 0; i < S::kSlots; ++i) {
      ptx::init_barrier(barrier_at(S::kFull, i), 1);
      ptx::init_barrier(barrier_at(S::kEmpty, i), S::kTiles);
    }
    ptx::publish_shared_writes();
  }
  ptx::sync_threads();
}

// S describes a block: kCode; Codes, a QuantStream of one tile; kRowTiles and kPanelBytes of a
// panel; kSlots, the number of panels; kConsumerThreads, which follow the warpgroup that fetches;
// and the offsets in shared memory of kTotals, kCodes and the barriers kFull and kEmpty.
template <class S>
class PanelSums {
 public:
  using Codes = typename S::Codes;
  using Args = typename Codes::Args;
  using Four = Elements<4, float>;
  using Sums = float[S::kRowTiles][4];  // a lane's outputs and rows

  // Sums tile `tile` of each of the block's items, over chunks [begin, end).
  template <class Items>
  QUIRE_DEVICE PanelSums(const Args& args, const Items& items, int tile, int begin, int end)
      : args_(args),
        stream_(args, items, tile, begin, end,
                ptx::shared_memory() + S::kCodes + warp() * Codes::kRingBytes) {}

  // Returns the warp's number among the consuming warps.
  QUIRE_DEVICE static int warp() { return ptx::thread_index() / 32 - kWarpgroupThreads / 32; }

  // Begins an item at a chunk.
  QUIRE_DEVICE void begin_item(int chunk) { group_left_ = chunks_of_first_group(args_, chunk); }

  // Sums chunks [chunk, end).
  QUIRE_DEVICE void sum_slice(int& chunk, int end) {
    const int per_group = args_.chunks_per_group;
    bool starts_group = true;
    clear(slice_);
#pragma unroll 1
    for (; chunk < end; ++chunk) {
      bool ends_group = chunk + 1 == end;
      if (--group_left_ <= 0) {
        ends_group |= !scales_codes(S::kCode);
        group_left_ = per_group;
      }
      add_chunk(starts_group, ends_group);
      starts_group = ends_group;
    }
  }

  QUIRE_DEVICE const Sums& slice() const { return slice_; }

  // Returns the thread's total of row tile 0; those of the other row tiles are kConsumerThreads
  // apart.
  QUIRE_DEVICE static Four* total() {
    return reinterpret_cast<Four*>(ptx::shared_memory() + S::kTotals) + ptx::thread_index() -
           kWarpgroupThreads;
  }
  QUIRE_DEVICE void store_total() const {
#pragma unroll
    for (int r = 0; r < S::kRowTiles; ++r)
      total()[r * S::kConsumerThreads] = {{slice_[r][0], slice_[r][1], slice_[r][2], slice_[r][3]}};
  }
  // Adds the total of the slices before this one, which is in shared memory. The last total stays
  // in slice_.
  QUIRE_DEVICE void add_to_total(int slice, bool is_last) {
#pragma unroll
    for (int r = 0; r < S::kRowTiles && slice > 0; ++r) {
      const Four before = total()[r * S::kConsumerThreads];
#pragma unroll
      for (int i = 0; i < 4; ++i) slice_[r][i] = ptx::add(before.at[i], slice_[r][i]);
    }
    if (!is_last) store_total();
  }

 private:
  QUIRE_DEVICE static void clear(Sums& sums) {
#pragma unroll
    for (auto& tile : sums)
#pragma unroll
      for (float& x : tile) x = 0.0f;
  }

  // Decodes the operand of each product while the product before it runs. A group may end in the
  // middle of the chunk.
  QUIRE_DEVICE void add_chunk(bool starts_group, bool ends_group) {
    const bool has_two_scales = args_.chunks_per_group == 0;
    const bool has_two_groups = has_two_scales && !scales_codes(S::kCode);
    stream_.next();
    const TileCodes<S::kCode> codes = stream_.codes(0);
    TileZeros zeros = stream_.zeros(0, 0);
    ptx::wait_barrier(barrier_at(S::kFull, place_.slot), place_.parity);
    const uint64_t x =
        panel_descriptor(ptx::shared_address(ptx::shared_memory() + place_.slot * S::kPanelBytes));
    uint32_t a[4][4];
    ptx::pin_registers(partial_);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const bool is_second_half = j == 2;
      if (is_second_half && has_two_scales) zeros = stream_.zeros(0, 1);
      if (is_second_half && has_two_groups) end_group(0);
      const bool starts = j == 0 ? starts_group : is_second_half && has_two_groups;
      decode_product<S::kCode>(codes, zeros, j, a[j]);
      ptx::begin_products();
      ptx::multiply_panel(partial_, a[j], moved_descriptor(x, static_cast<uint32_t>(j) * 32),
                          !starts);
      ptx::commit_products();
    }
    if (ends_group) {
      end_group(has_two_groups ? 1 : 0);
    } else {
      finish_products();
    }
    if (ptx::thread_index() % 32 == 0) ptx::arrive(barrier_at(S::kEmpty, place_.slot));
    place_.advance();
  }
  QUIRE_DEVICE void finish_products() {
    ptx::wait_products<0>();
    ptx::pin_registers(partial_);
  }
  // `group` is 0 or 1, as a chunk has one or two groups.
  QUIRE_DEVICE void end_group(int group) {
    finish_products();
    const auto scales = stream_.scales(0, group);
#pragma unroll
    for (int r = 0; r < S::kRowTiles; ++r)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        slice_[r][i] =
            ptx::multiply_add(partial_[r][i], i < 2 ? scales.low : scales.high, slice_[r][i]);
  }

  const Args& args_;
  Codes stream_;
  RingPlace<S::kSlots> place_;
  int group_left_ = 0;  // chunks
  Sums partial_;        // of the current group
  Sums slice_;
};

}  // namespace quire::cuda
