// A block owns a tile: some outputs of 64 rows per warpgroup. One thread fetches panels of 64
// inputs of x and of the weight through a ring in shared memory, the warpgroups multiply them.
// Products of 16 inputs are added one after another from the first input to the last whatever the
// tile, which is what makes a row's bits its own.
#include <iterator>

#include "kernels/cuda/hopper_code.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/linear/dense_linear.h"
#include "kernels/cuda/linear/dense_output.h"
#include "kernels/cuda/linear/dense_tiles.h"
#include "kernels/cuda/warpgroup_layout.h"

namespace quire::cuda {
namespace {

constexpr int kGroupThreads = 128;  // of a warpgroup
// Of the weight that comes before x may be read. With more, x waits behind it, and with x the first
// product: on an H200 one row of [4096, 4096] takes 16.8 us with all 20 slots and 13.8 us with 4.
constexpr int32_t kEarlySlots = 4;

struct DenseArgs {
  int32_t num_steps = 0;  // along k, of a slot of the ring each
  TileOrder order;
  int32_t last_rows = 0;     // of x, of the last row of tiles
  int32_t last_outputs = 0;  // of the last column of tiles
  Ring ring;
  DenseOutput output;
};

// Of each operand a map with the boxes of whole tiles, and one with those of the last.
struct DenseMaps {
  ptx::TensorMap x[2];
  ptx::TensorMap weight[2];
};

// A RingWalk is a place in the ring, and the parity of the round that it is in.
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
QUIRE_DEVICE uint64_t* full_barrier(const Ring& ring, int32_t slot) {
  return reinterpret_cast<uint64_t*>(ptx::shared_memory() + ring.barriers_at()) + slot;
}
QUIRE_DEVICE uint64_t* empty_barrier(const Ring& ring, int32_t slot) {
  return full_barrier(ring, ring.num_slots + slot);
}

// A tile, as the kernel was compiled for. Of gated products half of its columns are gates, the
// others what those are multiplied with.
template <int kGroupCount, int kColumnCount, bool kGated>
struct Tile {
  static constexpr int kGroups = kGroupCount;
  static constexpr int kColumns = kColumnCount;
  static constexpr int kPanels = panels_of_slot({kGroups, kColumns});
  static constexpr int kThreads = kGroups * kGroupThreads + 32;
  static constexpr bool kIsGated = kGated;
  static constexpr int kOutputs = kGated ? kColumns / 2 : kColumns;
  int32_t first_row;
  int32_t first_output;
  bool is_last_row;
  bool is_last_column;

  QUIRE_DEVICE Tile(const DenseArgs& args, int32_t index) {
    const TilePlace place = tile_place(args.order, index);
    first_row = place.row * kGroups * kGroupRows;
    first_output = place.column * kOutputs;
    is_last_row = place.row == args.order.row_tiles - 1;
    is_last_column = place.column == args.order.column_tiles - 1;
  }
  // Returns the bytes that are fetched for a slot.
  QUIRE_DEVICE int32_t step_bytes(const DenseArgs& args) const {
    const int32_t rows = is_last_row ? args.last_rows : kGroups * kGroupRows;
    const int32_t outputs = is_last_column ? args.last_outputs : kOutputs;
    return kPanels * (rows + outputs * (kColumns / kOutputs)) * kPanelRowBytes;
  }
};

// This is the thread that fetches. Some of the weight comes before the kernel before this one has
// ended, x does not.
template <class T>
QUIRE_DEVICE void produce(const DenseArgs& args, const DenseMaps& maps) {
  const Ring& ring = args.ring;
  const auto fetch = [&](const ptx::TensorMap& map, int32_t line, int32_t step, int32_t slot,
                         uint8_t* to, int32_t panel_bytes) {
#pragma unroll
    for (int panel = 0; panel < T::kPanels; ++panel) {
      ptx::copy_box(to + panel * panel_bytes, map, (step * T::kPanels + panel) * kPanelDims, line,
                    full_barrier(ring, slot));
    }
  };
  const auto fetch_weight = [&](const T& tile, int32_t step, int32_t slot) {
    ptx::arrive_expecting(full_barrier(ring, slot), tile.step_bytes(args));
    const ptx::TensorMap& map = maps.weight[tile.is_last_column];
    const int32_t panel_bytes = ring.weight_bytes / T::kPanels;
    uint8_t* to = weight_at(ring, slot);
    fetch(map, tile.first_output, step, slot, to, panel_bytes);
    if constexpr (T::kIsGated) {
      const auto up = static_cast<int32_t>(args.output.n) + tile.first_output;
      fetch(map, up, step, slot, to + panel_bytes / 2, panel_bytes);
    }
  };
  const auto fetch_x = [&](const T& tile, int32_t step, int32_t slot) {
    fetch(maps.x[tile.is_last_row], tile.first_row, step, slot, x_at(ring, slot),
          ring.x_bytes / T::kPanels);
  };
  const T first(args, ptx::block_index());
  int32_t step = 0;
  RingWalk walk;
  for (; step < args.num_steps && step < ring.num_slots && step < kEarlySlots; ++step) {
    fetch_weight(first, step, step);
    walk.advance(ring);
  }
  ptx::wait_for_previous_kernel();
  for (int32_t early = 0; early < step; ++early) fetch_x(first, early, early);
  for (int32_t index = ptx::block_index(); index < args.order.num_tiles();
       index += ptx::num_blocks()) {
    const T tile(args, index);
    for (; step < args.num_steps; ++step) {
      ptx::wait_barrier(empty_barrier(ring, walk.slot), walk.parity ^ 1);
      fetch_weight(tile, step, walk.slot);
      fetch_x(tile, step, walk.slot);
      walk.advance(ring);
    }
    step = 0;
  }
}

// Says that this warp is done with the panels of that slot.
QUIRE_DEVICE void release(const Ring& ring, int32_t slot) {
  if (ptx::thread_index() % 32 == 0) ptx::arrive(empty_barrier(ring, slot));
}

// Begins sums (+)= the warpgroup's rows times the tile's outputs over a slot of inputs.
template <int kPanels, int kTiles>
QUIRE_DEVICE void begin_step(const Ring& ring, int32_t slot, int group, bool adds,
                             float (&sums)[kTiles][4]) {
  const uint32_t x = ptx::shared_address(x_at(ring, slot)) + group * kGroupRows * kPanelRowBytes;
  const uint32_t weight = ptx::shared_address(weight_at(ring, slot));
  ptx::begin_products();
#pragma unroll
  for (int panel = 0; panel < kPanels; ++panel) {
#pragma unroll
    for (int k = 0; k < kPanelDims / 16; ++k) {
      ptx::multiply_panels(sums, panel_descriptor(x + panel * (ring.x_bytes / kPanels) + k * 32),
                           panel_descriptor(weight + panel * kTiles * 8 * kPanelRowBytes + k * 32),
                           adds || panel > 0 || k > 0);
    }
  }
  ptx::commit_products();
}

template <int kPanels, int kTiles>
QUIRE_DEVICE void multiply(const DenseArgs& args, int group, RingWalk& walk,
                           float (&sums)[kTiles][4]) {
  int32_t last_slot = 0;
  for (int32_t step = 0; step < args.num_steps; ++step) {
    ptx::wait_barrier(full_barrier(args.ring, walk.slot), walk.parity);
    begin_step<kPanels>(args.ring, walk.slot, group, step > 0, sums);
    ptx::wait_products<1>();
    if (step > 0) release(args.ring, last_slot);
    last_slot = walk.slot;
    walk.advance(args.ring);
  }
  ptx::wait_products<0>();
  ptx::pin_registers(sums);
  release(args.ring, last_slot);
}

template <class T>
QUIRE_DEVICE void consume(const DenseArgs& args, int group) {
  RingWalk walk;
  float sums[T::kColumns / 8][4];
  bool waited = false;
  for (int32_t index = ptx::block_index(); index < args.order.num_tiles();
       index += ptx::num_blocks()) {
    multiply<T::kPanels>(args, group, walk, sums);
    if (!waited) ptx::wait_for_previous_kernel();  // y, if it is added to
    waited = true;
    const T tile(args, index);
    const int thread = ptx::thread_index() % kGroupThreads;
    const int64_t row = tile.first_row + group * kGroupRows + thread / 32 * 16 + thread % 32 / 4;
    finish_tile<T::kIsGated>(args.output, row, tile.first_output, sums);
  }
}

template <class T>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(T::kThreads, 1)
    dense_linear_kernel(const DenseArgs args, const QUIRE_GRID_CONSTANT DenseMaps maps) {
  if (ptx::thread_index() == 0) {
    for (int32_t slot = 0; slot < args.ring.num_slots; ++slot) {
      ptx::init_barrier(full_barrier(args.ring, slot), 1);
      ptx::init_barrier(empty_barrier(args.ring, slot), T::kGroups * kGroupThreads / 32);
    }
    ptx::publish_shared_writes();
  }
  ptx::sync_threads();
  ptx::let_next_kernel_start();
  // The number comes from a lane, so that the compiler knows it to be the warp's: descriptors are
  // made of it.
  const int group = ptx::shuffle(ptx::thread_index() / kGroupThreads, 0);
  if (group < T::kGroups) {
    consume<T>(args, group);
  } else if (ptx::thread_index() % 32 == 0) {
    produce<T>(args, maps);
  }
}

// The product as the kernel wants it.
struct DenseProduct {
  DenseOutput output;
  MatrixMapShape x;
  MatrixMapShape weight;
};

bool encode_maps(MatrixMapShape shape, int32_t box_rows, int32_t last_rows,
                 ptx::TensorMap (&maps)[2]) {
  shape.box_rows = last_rows;
  if (!ptx::encode_matrix_map(shape, &maps[1])) return false;
  shape.box_rows = box_rows;
  return ptx::encode_matrix_map(shape, &maps[0]);
}

template <class T>
void launch_tiles(Stream& stream, const DenseProduct& product) {
  constexpr int kTileRows = T::kGroups * kGroupRows;
  constexpr int kStep = T::kPanels * kPanelDims;
  const DenseOutput& output = product.output;
  const Parts rows = parts_of(output.num_rows, kTileRows);
  const Parts columns = parts_of(output.n, T::kOutputs);
  const DenseArgs args{.num_steps = parts_of(product.x.columns, kStep).count,
                       .order = {.row_tiles = rows.count, .column_tiles = columns.count},
                       .last_rows = rows.last,
                       .last_outputs = columns.last,
                       .ring = dense_ring({T::kGroups, T::kColumns}, output.num_rows),
                       .output = output};
  DenseMaps maps{};
  if (!encode_maps(product.x, kTileRows, rows.last, maps.x) ||
      !encode_maps(product.weight, T::kOutputs, columns.last, maps.weight)) {
    return gpu(stream).fail(internal_error("CUDA: no tensor maps of {} rows of [{}, {}]",
                                           output.num_rows, product.weight.rows,
                                           product.x.columns));
  }
  launch<dense_linear_kernel<T>>(
      stream,
      {.num_blocks = std::min(args.order.num_tiles(), gpu(stream).info().num_sms),
       .num_threads = T::kThreads,
       .shared_bytes = args.ring.total_bytes()},
      args, maps);
}

// Goes from a number of columns at run time to one at compile time.
template <int kGroups, bool kGated, size_t kWidth = 0>
void launch_columns(Stream& stream, int columns, const DenseProduct& product) {
  constexpr int kColumns = kTileColumns[kWidth];
  if constexpr (kWidth + 1 < std::size(kTileColumns)) {
    if (columns != kColumns)
      return launch_columns<kGroups, kGated, kWidth + 1>(stream, columns, product);
  }
  if constexpr (is_tile({kGroups, kColumns}, kGated))
    launch_tiles<Tile<kGroups, kColumns, kGated>>(stream, product);
}

template <bool kGated>
void launch_shape(Stream& stream, const DenseProduct& product) {
  const TileShape shape = dense_tile_shape(product.output.num_rows, product.weight.rows,
                                           gpu(stream).info().num_sms, kGated);
  if (shape.groups == 1) return launch_columns<1, kGated>(stream, shape.columns, product);
  launch_columns<2, kGated>(stream, shape.columns, product);
}

bool is_multiple_of_16(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

}  // namespace

bool gates_dense_linear(const GpuStream& stream, const WeightSpec& spec) {
  return stream.info().compute_capability == 90 && !spec.quant.is_quantized() &&
         spec.dtype == DType::kBF16 && spec.k > 0 && spec.k % 8 == 0;
}

bool fits_dense_linear(const GpuStream& stream, const LinearParams& p) {
  return gates_dense_linear(stream, p.weight->spec) && p.x.dtype() == DType::kBF16 &&
         p.x_stride % 8 == 0 && is_multiple_of_16(p.x.data()) && is_multiple_of_16(p.weight->data);
}

void dense_linear(Stream& stream, const LinearParams& p) {
  const WeightSpec& spec = p.weight->spec;
  if (p.num_rows == 0 || spec.n == 0) return;
  const bool is_gated = p.gate != nullptr;
  QUIRE_CHECK(
      fits_dense_linear(gpu(stream), p) && (!is_gated || is_fused_activation(p.gate->activation)),
      "[dense_linear] {} rows of [{}, {}]", p.num_rows, spec.n, spec.k);
  const bool is_float = p.y.dtype() == DType::kF32;
  const int64_t n = is_gated ? spec.n / 2 : spec.n;
  const DenseProduct product{
      .output = {.num_rows = p.num_rows,
                 .n = n,
                 .bias = p.bias,
                 .y = p.y.data(),
                 .y_stride = p.y_stride,
                 .y_is_float = is_float,
                 .accumulate = p.accumulate,
                 .by_vectors = n % 8 == 0 && p.y_stride % 8 == 0 && is_multiple_of_16(p.y.data()) &&
                               (is_float || !p.accumulate),
                 .activation = is_gated ? p.gate->activation : Activation::kSilu},
      .x = {.base = p.x.data(), .rows = p.num_rows, .columns = spec.k, .row_stride = p.x_stride},
      .weight = {.base = p.weight->data, .rows = spec.n, .columns = spec.k, .row_stride = spec.k}};
  if (is_gated) return launch_shape<true>(stream, product);
  launch_shape<false>(stream, product);
}

}  // namespace quire::cuda
