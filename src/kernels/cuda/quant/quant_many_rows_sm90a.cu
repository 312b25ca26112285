// y = x W^T of quantized weights on Hopper, for more rows than quant_linear.cu's own kernel
// multiplies. Warpgroups decode 64 outputs each into registers. Tensor cores multiply these with
// the same panel of rows in shared memory, which one thread fetches (panel_sums.h). A row's sums
// are those of quant_linear.cu: product after product, group after group, slice after slice.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/linear_output.h"
#include "kernels/cuda/quant/panel_sums.h"
#include "kernels/cuda/ring/dense_output.h"

namespace quire::cuda {
namespace {

// A block for panels of kRowsOf rows. Sums of fewer rows leave registers for more warpgroups: more
// outputs then share a panel, and more warps decode while others multiply.
template <int kRowsOf>
struct PanelBlock {
  static constexpr int kRows = kRowsOf;
  static constexpr int kRowTiles = kRows / 8;
  static constexpr int kConsumers = panel_warpgroups(kRows);
  static constexpr int kConsumerThreads = kConsumers * kWarpgroupThreads;
  static constexpr int kThreads = kWarpgroupThreads + kConsumerThreads;
  static constexpr int kTiles = panel_tiles(kRows);  // one for each consuming warp
  static constexpr int kPanelBytes = kRows * kPanelRowBytes;
  // The registers that a block starts with: 168 or 96 for each thread.
  static constexpr int kRegisters = kThreads * (kConsumers == 2 ? 168 : 96);
  static constexpr int kProducerRegisters = kConsumers == 2 ? 40 : 32;
  static constexpr int kConsumerRegisters = kConsumers == 2 ? 232 : 112;
  static_assert(kWarpgroupThreads * kProducerRegisters + kConsumerThreads * kConsumerRegisters ==
                kRegisters);
};

// Panels go through a ring of the block, codes through rings of the warps.
template <CodeKind kCodeOf, int kRowsOf>
struct Shape : PanelBlock<kRowsOf> {
  using B = PanelBlock<kRowsOf>;
  static constexpr CodeKind kCode = kCodeOf;
  using Codes = QuantStream<kCode, false, 1, is_4_bit(kCode) ? 8 : 6>;
  static constexpr int kSlots = kRowsOf > 64 ? 5 : 6;
  static constexpr int kTotals = kSlots * B::kPanelBytes;  // [row tile][thread][4] float
  static constexpr int kCodes =
      kTotals + B::kRowTiles * B::kConsumerThreads * 4 * int{sizeof(float)};
  static constexpr int kFull = kCodes + B::kTiles * Codes::kRingBytes;
  static constexpr int kEmpty = kFull + kSlots * 8;
  static constexpr int kSharedBytes = kEmpty + kSlots * 8;
  static_assert(B::kPanelBytes % kPanelAlignment == 0 && kFull % 8 == 0 &&
                kSharedBytes <= 227 << 10);
};

// Returns the sums of row tile 0 of an item, among the sums of a slice: [slice][item][row
// tile][consuming thread].
using Four = Elements<4, float>;
template <class B>
QUIRE_DEVICE Four* slice_sums_at(const QuantLinearArgs& args, const QuantItems& items, int slice,
                                 int item, int thread) {
  return reinterpret_cast<Four*>(args.slice_sums) +
         (int64_t{slice} * items.count + item) * (B::kRowTiles * B::kConsumerThreads) + thread;
}

// One thread fetches the panels.
template <class S>
QUIRE_DEVICE void produce(const QuantLinearArgs& args, const QuantItems& items,
                          const uint8_t* panels) {
  const int64_t chunks = args.layout.num_chunks;
  const int begin = slice_begin(chunks, items.first_slice());
  const int end = slice_begin(chunks, items.end_slice());
  RingPlace<S::kSlots> place;
  for (int item = items.first(); item < items.count; item += items.step()) {
    const uint8_t* panel = panels + (items.row_block(item) * chunks + begin) * S::kPanelBytes;
    for (int chunk = begin; chunk < end; ++chunk) {
      uint64_t* full = barrier_at(S::kFull, place.slot);
      ptx::wait_barrier(barrier_at(S::kEmpty, place.slot), place.parity ^ 1);
      ptx::arrive_expecting(full, S::kPanelBytes);
      ptx::copy_bulk(ptx::shared_memory() + place.slot * S::kPanelBytes, panel, S::kPanelBytes,
                     full);
      panel += S::kPanelBytes;
      place.advance();
    }
  }
}

// A consuming warp.
template <class S>
class Consumer : PanelSums<S> {
 public:
  QUIRE_DEVICE Consumer(const QuantLinearArgs& args, const QuantItems& items)
      : Base(args, items, Base::warp(), slice_begin(args.layout.num_chunks, items.first_slice()),
             slice_begin(args.layout.num_chunks, items.end_slice())),
        args_(args),
        items_(items) {}

  QUIRE_DEVICE void run() {
    const int64_t chunks = args_.layout.num_chunks;
    const int begin = slice_begin(chunks, items_.first_slice());
    for (int item = items_.first(); item < items_.count; item += items_.step()) {
      int chunk = begin;
      this->begin_item(chunk);
#pragma unroll 1
      for (int slice = items_.first_slice(); slice < items_.end_slice(); ++slice) {
        this->sum_slice(chunk, slice_begin(chunks, slice + 1));
        end_slice(slice, item);
      }
    }
  }

 private:
  using Base = PanelSums<S>;

  // The first part of K adds its slices here; those of the other parts are added later, one after
  // the other.
  QUIRE_DEVICE void end_slice(int slice, int item) {
    const bool ends_part = slice + 1 == items_.end_slice();
    if (items_.first_slice() == 0) {
      this->add_to_total(slice, ends_part);
      if (!ends_part) return;
    }
    if (args_.parts > 1) return store_sums(slice, item);
    const int tile = items_.first_tile(item) + Base::warp();
    const int first_row = items_.row_block(item) * S::kRows;
    if (stores_vectors()) return store_vectors(tile, first_row);
    args_.y_is_float ? store(static_cast<float*>(args_.y), tile, first_row)
                     : store(static_cast<bfloat16*>(args_.y), tile, first_row);
  }
  QUIRE_DEVICE void store_sums(int slice, int item) const {
    const typename Base::Sums& sums = this->slice();
    Four* const to =
        slice_sums_at<S>(args_, items_, slice, item, ptx::thread_index() - kWarpgroupThreads);
#pragma unroll
    for (int r = 0; r < S::kRowTiles; ++r)
      to[r * S::kConsumerThreads] = {{sums[r][0], sums[r][1], sums[r][2], sums[r][3]}};
  }
  // Returns whether y can be written in pieces of 16 bytes.
  QUIRE_DEVICE bool stores_vectors() const {
    return !args_.accumulate && !args_.y_is_float && args_.n % 8 == 0 && args_.y_stride % 8 == 0 &&
           reinterpret_cast<uintptr_t>(args_.y) % 16 == 0;
  }
  // For two tiles of eight rows and the warp's 16 outputs, each lane stores eight outputs of a row.
  QUIRE_DEVICE void store_vectors(int tile, int first_row) const {
    const int lane = ptx::thread_index() % 32;
    const bool has_bias = args_.bias != nullptr;
    const int output = tile * 16 + lane / 4;
    const float bias[2] = {has_bias && output < args_.n ? args_.bias[output] : 0.0f,
                           has_bias && output + 8 < args_.n ? args_.bias[output + 8] : 0.0f};
#pragma unroll
    for (int r = 0; r < S::kRowTiles; r += 2) {
      Elements<4, uint32_t> packed;  // [row tile][half of outputs]
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float pair[2];  // of neighbouring rows
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const float sum = this->slice()[r + i / 2][i % 2 * 2 + j];
          pair[j] = has_bias ? ptx::add(sum, bias[i % 2]) : sum;
        }
        packed.at[i] = ptx::transpose_matrix(ptx::pack_bf16(pair[0], pair[1]));
      }
      transpose_quad(packed.at);
      const int row = first_row + (r + lane % 4 / 2) * 8 + lane / 4;
      const int first_output = tile * 16 + lane % 2 * 8;
      if (row < args_.num_rows && first_output < args_.n) {
        auto* y = static_cast<bfloat16*>(args_.y) + row * args_.y_stride + first_output;
        *reinterpret_cast<Elements<4, uint32_t>*>(y) = packed;
      }
    }
  }
  // Does the same as store_output(). The sums come from shared memory, which takes fewer registers.
  // The old values of two row tiles are read before any is stored.
  template <typename Y>
  QUIRE_DEVICE void store(Y* y, int tile, int first_row) const {
    constexpr int kAtOnce = 2;
    this->store_total();
    const int lane = ptx::thread_index() % 32;
    const int output = tile * 16 + lane / 4;
    const bool has_bias = args_.bias != nullptr;
    const float bias[2] = {has_bias && output < args_.n ? args_.bias[output] : 0.0f,
                           has_bias && output + 8 < args_.n ? args_.bias[output + 8] : 0.0f};
#pragma unroll 1
    for (int first = 0; first < S::kRowTiles; first += kAtOnce) {
      Y* to[kAtOnce][4];  // null past the last row or output
      Y before[kAtOnce][4] = {};
#pragma unroll
      for (int r = 0; r < kAtOnce; ++r)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int64_t row = first_row + (first + r) * 8 + lane % 4 * 2 + i % 2;
          const int at = output + i / 2 * 8;
          to[r][i] = row < args_.num_rows && at < args_.n ? y + row * args_.y_stride + at : nullptr;
          if (args_.accumulate && to[r][i] != nullptr) before[r][i] = *to[r][i];
        }
#pragma unroll
      for (int r = 0; r < kAtOnce; ++r) {
        const Four sums = Base::total()[(first + r) * S::kConsumerThreads];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float sum = has_bias ? ptx::add(sums.at[i], bias[i / 2]) : sums.at[i];
          if (to[r][i] != nullptr)
            *to[r][i] = narrow<Y>(args_.accumulate ? ptx::add(widen(before[r][i]), sum) : sum);
        }
      }
    }
  }

  const QuantLinearArgs& args_;
  const QuantItems& items_;
};

template <class S>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(S::kThreads, 1)
    quant_many_rows_kernel(const QuantLinearArgs args, const uint8_t* panels) {
  const QuantItems items(args, S::kTiles, S::kRows);
  init_panel_ring<S>();
  if (ptx::thread_index() < kWarpgroupThreads) {
    ptx::give_back_registers<S::kProducerRegisters>();
    ptx::wait_for_previous_kernel();  // the panels
    ptx::let_next_kernel_start();
    if (ptx::thread_index() == 0) produce<S>(args, items, panels);
  } else {
    ptx::take_registers<S::kConsumerRegisters>();
    Consumer<S> consumer(args, items);
    ptx::wait_for_previous_kernel();  // y, if it accumulates
    ptx::let_next_kernel_start();
    consumer.run();
  }
}

// Adds the slices of several parts. A block takes one row tile of an item; its threads have the
// sums of the consuming threads of the item's blocks.
template <class B>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(B::kConsumerThreads, 1)
    fold_slices_kernel(const QuantLinearArgs args) {
  const QuantItems items(args, B::kTiles, B::kRows);
  const int item = ptx::block_index() / B::kRowTiles;
  const int tile = ptx::block_index() % B::kRowTiles;  // of eight rows
  const int lane = ptx::thread_index() % 32;
  const int row = items.row_block(item) * B::kRows + tile * 8 + lane % 4 * 2;
  const int output = (items.first_tile(item) + ptx::thread_index() / 32) * 16 + lane / 4;
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const int first = kQuantSlices / args.parts - 1;  // its sums include those of the slices before
  Four slices[kQuantSlices] = {};
#pragma unroll
  for (int slice = 0; slice < kQuantSlices; ++slice) {
    if (slice >= first)
      slices[slice] = slice_sums_at<B>(args, items, slice, item,
                                       ptx::thread_index())[tile * B::kConsumerThreads];
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float sum = slices[0].at[i];
#pragma unroll
    for (int slice = 1; slice < kQuantSlices; ++slice)
      sum = slice > first ? ptx::add(sum, slices[slice].at[i]) : slices[slice].at[i];
    store_output(args, row + i % 2, output + i / 2 * 8, sum);
  }
}

template <CodeKind kCode, int kRows>
void launch_shape(Stream& stream, QuantLinearArgs args, const QuantScratch& scratch) {
  using S = Shape<kCode, kRows>;
  const int32_t num_sms = gpu(stream).info().num_sms;
  const int64_t num_items = QuantItems(args, S::kTiles, kRows).count;
  args.parts = quant_parts({.num_items = num_items,
                            .num_chunks = args.layout.num_chunks,
                            .slice_bytes = num_items * S::kTiles * 16 * kRows * 4,
                            .most_bytes = scratch.sum_bytes},
                           num_sms);
  args.slice_sums = scratch.sums;
  arrange_panels(stream, args, kRows, scratch.panels);
  const int64_t num_blocks = blocks_for(gpu(stream), num_items * args.parts, 1, 1);
  launch<quant_many_rows_kernel<S>>(stream,
                                    {.num_blocks = num_blocks / args.parts * args.parts,
                                     .num_threads = S::kThreads,
                                     .shared_bytes = S::kSharedBytes},
                                    args, scratch.panels);
  if (args.parts == 1) return;
  launch<fold_slices_kernel<PanelBlock<kRows>>>(
      stream, {.num_blocks = num_items * S::kRowTiles, .num_threads = S::kConsumerThreads}, args);
}

template <CodeKind kCode>
void launch_code(Stream& stream, const QuantLinearArgs& args, const QuantScratch& scratch) {
  const int rows = quant_panel_rows(args.num_rows);
  if (rows == 32) return launch_shape<kCode, 32>(stream, args, scratch);
  if (rows == 64) return launch_shape<kCode, 64>(stream, args, scratch);
  launch_shape<kCode, 128>(stream, args, scratch);
}

}  // namespace

void quant_many_rows(Stream& stream, const QuantLinearArgs& args, const QuantSpec& quant,
                     const QuantScratch& scratch) {
  if (quant.codebook == Codebook::kE2M1) return launch_code<CodeKind::kFp4>(stream, args, scratch);
  if (quant.codebook == Codebook::kE4M3) return launch_code<CodeKind::kFp8>(stream, args, scratch);
  quant.bits == 4 ? launch_code<CodeKind::kInt4>(stream, args, scratch)
                  : launch_code<CodeKind::kInt8>(stream, args, scratch);
}

}  // namespace quire::cuda
