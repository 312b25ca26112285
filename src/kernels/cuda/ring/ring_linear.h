// y = x W^T by warpgroups, for kernels in files named *_sm90a.cu. A block computes tiles: some
// outputs of 64 rows per warpgroup. One thread fetches panels of 128 bytes of inputs of x and of
// the weight through a ring in shared memory, and the warpgroups multiply them. Products of 32
// bytes of inputs are added one after another from the first input to the last, whatever the tile,
// so a row's bits depend on that row and the weight alone.
//
// The class of operands has these members:
//   Sum                 of products
//   kHasGroupScales     a panel is a group of inputs, whose sum is scaled and added to the total
//   kHasRowScales       a total is scaled when it is finished
//   multiply(d, a, b, adds)  the warpgroup product
//   kTileColumns, tile_shape()  the widths of tiles, and the tile that a product uses
//   most_blocks()       how many blocks with a tile fit the registers of an SM
#pragma once

#include <iterator>

#include "kernels/api/linear.h"
#include "kernels/cuda/hopper_code.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ring/dense_output.h"
#include "kernels/cuda/ring/dense_tiles.h"
#include "kernels/cuda/ring/tensor_maps.h"
#include "kernels/cuda/warpgroup_layout.h"

namespace quire::cuda {

// How many slots of the weight are fetched before x may be read. With more, x queues behind them,
// and the first product waits for x: on an H200 one row of [4096, 4096] takes 16.8 us with all 20
// slots and 13.8 us with 4.
inline constexpr int32_t kEarlySlots = 4;

// The scales of codes. With scales of groups they are [groups][stride], with one for each row of x
// and each output of the weight; else there is a single group.
struct CodeScales {
  const float* x = nullptr;
  int64_t x_stride = 0;  // a multiple of 8
  const float* weight = nullptr;
  int64_t weight_stride = 0;  // a multiple of 4
};

struct RingLinearArgs {
  int32_t num_steps = 0;  // along k; a step is a slot of the ring
  TileOrder order;
  int32_t last_rows = 0;     // rows of x in the last row of tiles
  int32_t last_outputs = 0;  // outputs in the last column of tiles
  Ring ring;
  CodeScales scales;
  DenseOutput output;
};

// For each operand a map with the boxes of whole tiles, and one with those of the last tile.
struct RingLinearMaps {
  ptx::TensorMap x[2];
  ptx::TensorMap weight[2];
};

// A position in the ring, with the parity of its round.
struct RingWalk {
  int32_t slot = 0;
  uint32_t parity = 0;

  QUIRE_DEVICE void advance(const Ring& ring) {
    if (++slot < ring.num_slots) return;
    slot = 0;
    parity ^= 1;
  }
};

QUIRE_DEVICE uint8_t* x_at(const Ring& ring, int32_t slot) {
  return ptx::shared_memory() + slot * ring.x_bytes;
}
QUIRE_DEVICE uint8_t* weight_at(const Ring& ring, int32_t slot) {
  return ptx::shared_memory() + ring.weights_at() + slot * ring.weight_bytes;
}
// A slot has the scales of the tile's rows for each panel, then those of its outputs for each
// panel.
QUIRE_DEVICE float* scales_at(const Ring& ring, int32_t slot) {
  return reinterpret_cast<float*>(ptx::shared_memory() + ring.scales_at() +
                                  slot * ring.scale_bytes);
}
QUIRE_DEVICE uint64_t* full_barrier(const Ring& ring, int32_t slot) {
  return barrier_at(ring.barriers_at(), slot);
}
QUIRE_DEVICE uint64_t* empty_barrier(const Ring& ring, int32_t slot) {
  return full_barrier(ring, ring.num_slots + slot);
}

// A tile, as the kernel is compiled for it. For gated products half of its columns are gates, and
// the others the values that they multiply.
template <class OperandKind, int kGroupCount, int kColumnCount, bool kGated>
struct Tile {
  using Operands = OperandKind;
  static constexpr int kGroups = kGroupCount;
  static constexpr int kColumns = kColumnCount;
  static constexpr int kPanels = panels_of_slot({kGroups, kColumns});
  static constexpr int kThreads = kGroups * kWarpgroupThreads + 32;
  static constexpr int kBlocks = Operands::most_blocks(kGroups, kColumns);
  static constexpr int kRows = kGroups * kGroupRows;
  static constexpr bool kIsGated = kGated;
  static constexpr int kOutputs = kGated ? kColumns / 2 : kColumns;
  using Sums = typename Operands::Sum[kColumns / 8][4];
  int32_t first_row;
  int32_t first_output;
  bool is_last_row;
  bool is_last_column;

  QUIRE_DEVICE Tile(const RingLinearArgs& args, int32_t index) {
    const TilePlace place = tile_place(args.order, index);
    first_row = place.row * kRows;
    first_output = place.column * kOutputs;
    is_last_row = place.row == args.order.row_tiles - 1;
    is_last_column = place.column == args.order.column_tiles - 1;
  }
  // The lines of x and of the weight that are fetched; for gated outputs, twice as many of the
  // weight.
  QUIRE_DEVICE int32_t rows(const RingLinearArgs& args) const {
    return is_last_row ? args.last_rows : kRows;
  }
  QUIRE_DEVICE int32_t outputs(const RingLinearArgs& args) const {
    return is_last_column ? args.last_outputs : kOutputs;
  }
  // Returns the bytes that are fetched for a slot.
  QUIRE_DEVICE int32_t step_bytes(const RingLinearArgs& args) const {
    constexpr int32_t kLineBytes =
        kPanelRowBytes + (Operands::kHasGroupScales ? int32_t{sizeof(float)} : 0);
    return kPanels * (rows(args) + outputs(args) * (kColumns / kOutputs)) * kLineBytes;
  }
};

// The thread that fetches. It fetches some of the weight before the previous kernel has ended, but
// x only after.
template <class T>
class RingProducer {
 public:
  QUIRE_DEVICE RingProducer(const RingLinearArgs& args, const RingLinearMaps& maps)
      : args_(args), ring_(args.ring), maps_(maps) {}

  QUIRE_DEVICE void run() const {
    const T first(args_, ptx::block_index());
    int32_t step = 0;
    RingWalk walk;
    for (; step < args_.num_steps && step < ring_.num_slots && step < kEarlySlots; ++step) {
      fetch_weight(first, step, step);
      walk.advance(ring_);
    }
    ptx::wait_for_previous_kernel();
    for (int32_t early = 0; early < step; ++early) fetch_x(first, early, early);
    for (int32_t index = ptx::block_index(); index < args_.order.num_tiles();
         index += ptx::num_blocks()) {
      const T tile(args_, index);
      for (; step < args_.num_steps; ++step) {
        ptx::wait_barrier(empty_barrier(ring_, walk.slot), walk.parity ^ 1);
        fetch_weight(tile, step, walk.slot);
        fetch_x(tile, step, walk.slot);
        walk.advance(ring_);
      }
      step = 0;
    }
  }

 private:
  // Panels are copied in units of two bytes, whatever their type.
  QUIRE_DEVICE void fetch_panels(const ptx::TensorMap& map, int32_t line, int32_t step,
                                 int32_t slot, uint8_t* to, int32_t panel_bytes) const {
#pragma unroll
    for (int panel = 0; panel < T::kPanels; ++panel) {
      ptx::copy_box(to + panel * panel_bytes, map, (step * T::kPanels + panel) * kPanelDims, line,
                    full_barrier(ring_, slot));
    }
  }
  // Fetches the scales of `count` lines. `to` is for the first panel; panels are `panel_lines`
  // scales apart.
  QUIRE_DEVICE void fetch_scales(const float* scales, int64_t stride, int32_t line, int32_t count,
                                 int32_t step, int32_t slot, float* to, int32_t panel_lines) const {
#pragma unroll
    for (int panel = 0; panel < T::kPanels; ++panel) {
      ptx::copy_bulk(to + panel * panel_lines, scales + (step * T::kPanels + panel) * stride + line,
                     count * int{sizeof(float)}, full_barrier(ring_, slot));
    }
  }
  QUIRE_DEVICE void fetch_weight(const T& tile, int32_t step, int32_t slot) const {
    ptx::arrive_expecting(full_barrier(ring_, slot), tile.step_bytes(args_));
    const int32_t panel_bytes = ring_.weight_bytes / T::kPanels;
#pragma unroll
    for (int part = 0; part < T::kColumns / T::kOutputs; ++part) {
      const int32_t line = tile.first_output + part * static_cast<int32_t>(args_.output.n);
      fetch_panels(maps_.weight[tile.is_last_column], line, step, slot,
                   weight_at(ring_, slot) + part * (panel_bytes / 2), panel_bytes);
      if constexpr (T::Operands::kHasGroupScales) {
        fetch_scales(
            args_.scales.weight, args_.scales.weight_stride, line, tile.outputs(args_), step, slot,
            scales_at(ring_, slot) + T::kPanels * T::kRows + part * T::kOutputs, T::kColumns);
      }
    }
  }
  QUIRE_DEVICE void fetch_x(const T& tile, int32_t step, int32_t slot) const {
    fetch_panels(maps_.x[tile.is_last_row], tile.first_row, step, slot, x_at(ring_, slot),
                 ring_.x_bytes / T::kPanels);
    if constexpr (T::Operands::kHasGroupScales) {
      fetch_scales(args_.scales.x, args_.scales.x_stride, tile.first_row, tile.rows(args_), step,
                   slot, scales_at(ring_, slot), T::kRows);
    }
  }

  const RingLinearArgs& args_;
  const Ring& ring_;
  const RingLinearMaps& maps_;
};

// A warpgroup, which multiplies 64 rows of each tile.
template <class T>
class RingConsumer {
 public:
  QUIRE_DEVICE RingConsumer(const RingLinearArgs& args, int group)
      : args_(args), ring_(args.ring), group_(group) {}

  QUIRE_DEVICE void run() {
    bool waited = false;
    for (int32_t index = ptx::block_index(); index < args_.order.num_tiles();
         index += ptx::num_blocks()) {
      Sums sums;
      if constexpr (Operands::kHasGroupScales) {
        add_groups(sums);
      } else {
        multiply(sums);
      }
      if (!waited) ptx::wait_for_previous_kernel();  // y, if it accumulates
      waited = true;
      const T tile(args_, index);
      const int64_t row = tile.first_row + group_ * kGroupRows + row_in_group();
      if constexpr (Operands::kHasRowScales) {
        float scaled[T::kColumns / 8][4];
        scale_rows(row, tile.first_output, sums, scaled);
        finish_tile<T::kIsGated>(args_.output, row, tile.first_output, scaled);
      } else {
        finish_tile<T::kIsGated>(args_.output, row, tile.first_output, sums);
      }
    }
  }

 private:
  using Operands = typename T::Operands;
  using Sums = typename T::Sums;

  // Returns the lane's first row; the other is eight rows further.
  QUIRE_DEVICE static int row_in_group() {
    const int thread = ptx::thread_index() % kWarpgroupThreads;
    return thread / 32 * 16 + thread % 32 / 4;
  }
  // Marks the panels of the slot as no longer used by this warp.
  QUIRE_DEVICE void release(int32_t slot) const {
    if (ptx::thread_index() % 32 == 0) ptx::arrive(empty_barrier(ring_, slot));
  }

  // Begins sums (+)= the warpgroup's rows times the tile's outputs over a panel of a slot.
  QUIRE_DEVICE void begin_panel(int32_t slot, int panel, bool adds, Sums& sums) const {
    const uint32_t x = ptx::shared_address(x_at(ring_, slot)) +
                       group_ * kGroupRows * kPanelRowBytes + panel * (ring_.x_bytes / T::kPanels);
    const uint32_t weight =
        ptx::shared_address(weight_at(ring_, slot)) + panel * T::kColumns * kPanelRowBytes;
#pragma unroll
    for (int k = 0; k < kPanelRowBytes / 32; ++k) {
      Operands::multiply(sums, panel_descriptor(x + k * 32), panel_descriptor(weight + k * 32),
                         adds || k > 0);
    }
  }

  QUIRE_DEVICE void multiply(Sums& sums) {
    int32_t last_slot = 0;
    for (int32_t step = 0; step < args_.num_steps; ++step) {
      ptx::wait_barrier(full_barrier(ring_, walk_.slot), walk_.parity);
      ptx::begin_products();
#pragma unroll
      for (int panel = 0; panel < T::kPanels; ++panel)
        begin_panel(walk_.slot, panel, step > 0 || panel > 0, sums);
      ptx::commit_products();
      ptx::wait_products<1>();
      if (step > 0) release(last_slot);
      last_slot = walk_.slot;
      walk_.advance(ring_);
    }
    ptx::wait_products<0>();
    ptx::pin_registers(sums);
    release(last_slot);
  }

  QUIRE_DEVICE static void clear(Sums& sums) {
#pragma unroll
    for (auto& tile : sums)
#pragma unroll
      for (auto& sum : tile) sum = 0;
  }
  QUIRE_DEVICE void begin_group(int32_t slot, int panel, Sums& sums) const {
    ptx::begin_products();
    begin_panel(slot, panel, false, sums);
    ptx::commit_products();
  }
  // totals += the sums of a panel, times the scales of their row and output.
  QUIRE_DEVICE void add_scaled(int32_t slot, int panel, const Sums& sums, Sums& totals) const {
    const float* rows =
        scales_at(ring_, slot) + panel * T::kRows + group_ * kGroupRows + row_in_group();
    const float* outputs = scales_at(ring_, slot) + T::kPanels * T::kRows + panel * T::kColumns +
                           ptx::thread_index() % 4 * 2;
    const float of_row[2] = {rows[0], rows[8]};
#pragma unroll
    for (int tile = 0; tile < T::kColumns / 8; ++tile) {
      const auto of_output = *reinterpret_cast<const Elements<2, float>*>(outputs + tile * 8);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        totals[tile][i] = ptx::multiply_add(
            sums[tile][i], ptx::multiply(of_row[i / 2], of_output.at[i % 2]), totals[tile][i]);
      }
    }
    ptx::sync_warp();  // scales have been read
  }
  // If a slot has two groups, the second is multiplied while the first is scaled; else the SM's
  // other warpgroup multiplies meanwhile.
  QUIRE_DEVICE void add_groups(Sums& totals) {
    Sums first, second;
    clear(totals);
    for (int32_t step = 0; step < args_.num_steps; ++step) {
      const int32_t slot = walk_.slot;
      ptx::wait_barrier(full_barrier(ring_, slot), walk_.parity);
      begin_group(slot, 0, first);
      if constexpr (T::kPanels == 2) {
        begin_group(slot, 1, second);
        ptx::wait_products<1>();
        ptx::pin_registers(first);
        add_scaled(slot, 0, first, totals);
        ptx::wait_products<0>();
        ptx::pin_registers(second);
        add_scaled(slot, 1, second, totals);
      } else {
        ptx::wait_products<0>();
        ptx::pin_registers(first);
        add_scaled(slot, 0, first, totals);
      }
      release(slot);
      walk_.advance(ring_);
    }
  }

  QUIRE_DEVICE void scale_rows(int64_t row, int64_t first_output, const Sums& sums,
                               float (&scaled)[T::kColumns / 8][4]) const {
    const CodeScales& scales = args_.scales;
    const auto last_row = static_cast<int32_t>(args_.output.num_rows) - 1;
    const auto at = static_cast<int32_t>(row);
    const float of_row[2] = {scales.x[at < last_row ? at : last_row],
                             scales.x[at + 8 < last_row ? at + 8 : last_row]};
    const auto n = static_cast<int32_t>(args_.output.n);
    const int32_t first = static_cast<int32_t>(first_output) + ptx::thread_index() % 4 * 2;
#pragma unroll
    for (int tile = 0; tile < T::kColumns / 8; ++tile) {
      const float* of_output = scales.weight + tile * 8 / T::kOutputs * n;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int32_t output = first + tile * 8 % T::kOutputs + i % 2;
        const float scale = ptx::multiply(of_row[i / 2], of_output[output < n ? output : n - 1]);
        scaled[tile][i] = ptx::multiply(static_cast<float>(sums[tile][i]), scale);
      }
    }
  }

  const RingLinearArgs& args_;
  const Ring& ring_;
  int group_;
  RingWalk walk_;
};

template <class T>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(T::kThreads, T::kBlocks)
    ring_linear_kernel(const RingLinearArgs args, const QUIRE_GRID_CONSTANT RingLinearMaps maps) {
  if (ptx::thread_index() == 0) {
    for (int32_t slot = 0; slot < args.ring.num_slots; ++slot) {
      ptx::init_barrier(full_barrier(args.ring, slot), 1);
      ptx::init_barrier(empty_barrier(args.ring, slot), T::kGroups * kWarpgroupThreads / 32);
    }
    ptx::publish_shared_writes();
  }
  ptx::sync_threads();
  ptx::let_next_kernel_start();
  // The number is taken from a lane, so that the compiler knows it is the same in the whole warp,
  // as descriptors must be.
  const int group = ptx::shuffle(ptx::thread_index() / kWarpgroupThreads, 0);
  if (group < T::kGroups) {
    RingConsumer<T>(args, group).run();
  } else if (ptx::thread_index() % 32 == 0) {
    RingProducer<T>(args, maps).run();
  }
}

// The product in the kernel's terms. Columns and strides of the matrices are in units of two bytes.
struct RingProduct {
  DenseOutput output;
  MatrixMapShape x;
  MatrixMapShape weight;
  CodeScales scales;
};

inline bool find_maps(Stream& stream, MatrixMapShape shape, int32_t box_rows, int32_t last_rows,
                      ptx::TensorMap (&maps)[2]) {
  for (size_t i = 0; i < 2; ++i) {
    shape.box_rows = i == 0 ? box_rows : last_rows;
    const ptx::TensorMap* const map = TensorMaps::of(stream).find(shape);
    if (map == nullptr) return false;
    maps[i] = *map;
  }
  return true;
}

template <class T>
void launch_tiles(Stream& stream, const RingProduct& product, const TileShape& shape) {
  const DenseOutput& output = product.output;
  const Parts rows = parts_of(output.num_rows, T::kRows);
  const Parts columns = parts_of(output.n, T::kOutputs);
  constexpr int kStep = T::kPanels * kPanelDims;
  const RingLinearArgs args{
      .num_steps = parts_of(product.x.columns, kStep).count,
      .order = {.row_tiles = rows.count, .column_tiles = columns.count},
      .last_rows = rows.last,
      .last_outputs = columns.last,
      .ring = dense_ring(shape, output.num_rows, T::Operands::kHasGroupScales),
      .scales = product.scales,
      .output = output};
  RingLinearMaps maps{};
  if (!find_maps(stream, product.x, T::kRows, rows.last, maps.x) ||
      !find_maps(stream, product.weight, T::kOutputs, columns.last, maps.weight)) {
    return gpu(stream).fail(internal_error("CUDA: no tensor maps of {} rows of [{}, {}]",
                                           output.num_rows, product.weight.rows,
                                           product.x.columns));
  }
  launch<ring_linear_kernel<T>>(
      stream,
      {.num_blocks = std::min(args.order.num_tiles(), gpu(stream).info().num_sms * shape.blocks),
       .num_threads = T::kThreads,
       .shared_bytes = args.ring.total_bytes()},
      args, maps);
}

// Dispatches from a number of columns at run time to one at compile time.
template <class Operands, int kGroups, bool kGated, size_t kWidth = 0>
void launch_columns(Stream& stream, const RingProduct& product, const TileShape& shape) {
  constexpr int kColumns = Operands::kTileColumns[kWidth];
  if constexpr (kWidth + 1 < std::size(Operands::kTileColumns)) {
    if (shape.columns != kColumns)
      return launch_columns<Operands, kGroups, kGated, kWidth + 1>(stream, product, shape);
  }
  if constexpr (is_tile({kGroups, kColumns}, kGated))
    launch_tiles<Tile<Operands, kGroups, kColumns, kGated>>(stream, product, shape);
}

template <class Operands, bool kGated>
void launch_shape(Stream& stream, const RingProduct& product) {
  const TileShape shape = Operands::tile_shape(product.output.num_rows, product.weight.rows,
                                               gpu(stream).info().num_sms, kGated);
  if (shape.groups == 1) return launch_columns<Operands, 1, kGated>(stream, product, shape);
  launch_columns<Operands, 2, kGated>(stream, product, shape);
}

inline bool is_multiple_of_16(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

// Returns where the results of a product of `p` are written.
inline DenseOutput ring_output(const LinearParams& p) {
  const bool is_float = p.y.dtype() == DType::kF32;
  const int64_t n = p.gate != nullptr ? p.weight->spec.n / 2 : p.weight->spec.n;
  return {.num_rows = p.num_rows,
          .n = n,
          .bias = p.bias,
          .y = p.y.data(),
          .y_stride = p.y_stride,
          .y_is_float = is_float,
          .accumulate = p.accumulate,
          .by_vectors = n % 8 == 0 && p.y_stride % 8 == 0 && is_multiple_of_16(p.y.data()) &&
                        (is_float || !p.accumulate),
          .activation = p.gate != nullptr ? p.gate->activation : Activation::kSilu};
}

// Runs the product, gated if `p` is.
template <class Operands>
void ring_linear(Stream& stream, const LinearParams& p, const RingProduct& product) {
  QUIRE_CHECK(p.gate == nullptr || is_fused_activation(p.gate->activation),
              "[ring_linear] {} rows of [{}, {}]", p.num_rows, p.weight->spec.n, p.weight->spec.k);
  p.gate != nullptr ? launch_shape<Operands, true>(stream, product)
                    : launch_shape<Operands, false>(stream, product);
}

}  // namespace quire::cuda
