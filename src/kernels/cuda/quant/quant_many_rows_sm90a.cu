// y = x W^T of quantized weights for many rows on Hopper. Three warpgroups decode 64 outputs each
// into registers, from which tensor cores multiply them with the same 64 rows in shared memory, which
// a thread fetches. While one warpgroup decodes, others multiply. A row's sums are those of quant_linear.cu:
// product after product, group after group, slice after slice.
#include "kernels/cuda/hopper_code.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/linear/linear_output.h"
#include "kernels/cuda/quant/quant_stream.h"

namespace quire::cuda {
namespace {

constexpr int kGroupThreads = 128;
constexpr int kConsumers = 2;
constexpr int kThreads = kGroupThreads * (1 + kConsumers);
constexpr int kProducerRegisters = 40;
constexpr int kConsumerRegisters = 232;  // 128 * 40 + 256 * 232 <= 65,536
constexpr int kTiles = kConsumers * 4;   // of 16 outputs, one per consuming warp

// Panels go round in a ring of the block, codes in rings of the warps.
template <CodeKind kCode>
struct Memory {
  using Codes = QuantStream<kCode, false, 1, is_4_bit(kCode) ? 8 : 6>;
  static constexpr int kSlots = 5;
  static constexpr int kTotals = kSlots * kPanelBytes;  // [row tile][thread][4] float
  static constexpr int kTotalBytes = kPanelRows / 8 * kConsumers * kGroupThreads * 16;
  static constexpr int kCodes = kTotals + kTotalBytes;
  static constexpr int kFull = kCodes + kTiles * Codes::kRingBytes;
  static constexpr int kEmpty = kFull + kSlots * 8;
  static constexpr int kTotal = kEmpty + kSlots * 8;
  static_assert(kPanelBytes % kPanelAlignment == 0 && kFull % 8 == 0 && kTotal <= 227 << 10);
};

QUIRE_DEVICE uint64_t* barrier_at(int offset, int i) {
  return reinterpret_cast<uint64_t*>(ptx::shared_memory() + offset) + i;
}

// One thread fetches the panels.
template <typename M>
QUIRE_DEVICE void produce(const QuantLinearArgs& args, const QuantItems& items,
                          const uint8_t* panels) {
  const auto chunks = static_cast<int>(args.layout.num_chunks);
  RingPlace<M::kSlots> place;
  for (int item = ptx::block_index(); item < items.count; item += ptx::num_blocks()) {
    const uint8_t* panel = panels + int64_t{items.row_block(item)} * chunks * kPanelBytes;
    for (int chunk = 0; chunk < chunks; ++chunk) {
      uint64_t* full = barrier_at(M::kFull, place.slot);
      ptx::wait_barrier(barrier_at(M::kEmpty, place.slot), place.parity ^ 1);
      ptx::arrive_expecting(full, kPanelBytes);
      ptx::copy_bulk(ptx::shared_memory() + place.slot * kPanelBytes, panel, kPanelBytes, full);
      panel += kPanelBytes;
      place.advance();
    }
  }
}

// What a lane holds of the sums of its warp's 16 outputs and a panel's rows.
constexpr int kRowTiles = kPanelRows / 8;
using Sums = float[kRowTiles][4];

QUIRE_DEVICE void clear(Sums& sums) {
#pragma unroll
  for (auto& tile : sums)
#pragma unroll
    for (float& x : tile) x = 0.0f;
}
QUIRE_DEVICE void add_scaled(Sums& total, const Sums& sums, float low, float high) {
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      total[r][i] = ptx::multiply_add(sums[r][i], i < 2 ? low : high, total[r][i]);
}

// A consuming warp.
template <CodeKind kCode>
class Consumer {
 public:
  QUIRE_DEVICE Consumer(const QuantLinearArgs& args, const QuantItems& items, int tile)
      : args_(args),
        items_(items),
        tile_(tile),
        stream_(args, items, tile, 0, static_cast<int>(args.layout.num_chunks),
                ptx::shared_memory() + M::kCodes + tile * M::Codes::kRingBytes) {}

  QUIRE_DEVICE void run() {
    for (int item = ptx::block_index(); item < items_.count; item += ptx::num_blocks()) {
      sum_item();
      const int tile = items_.first_tile(item) + tile_;
      const int row = items_.row_block(item) * kPanelRows;
      store(tile, row);
    }
  }

 private:
  using M = Memory<kCode>;

  // Leaves the sums in slice_.
  QUIRE_DEVICE void sum_item() {
    const int64_t chunks = args_.layout.num_chunks;
    const int per_group = args_.chunks_per_group;
    int group_left = per_group;
    starts_group_ = true;
    int chunk = 0;
#pragma unroll 1
    for (int slice = 0; slice < kQuantSlices; ++slice) {
      clear(slice_);
      const int end = slice_begin(chunks, slice + 1);
#pragma unroll 1
      for (; chunk < end; ++chunk) {
        const bool ends_group = --group_left == 0;
        if (ends_group) group_left = per_group;
        add_chunk(per_group == 0, ends_group || chunk + 1 == end);
      }
      add_to_total(slice);
    }
  }
  // The total of the slices before this one lies in shared memory; that of all stays in slice_.
  QUIRE_DEVICE void add_to_total(int slice) {
    using Four = Elements<4, float>;
    auto* total = reinterpret_cast<Four*>(ptx::shared_memory() + M::kTotals) +
                  ptx::thread_index() - kGroupThreads;
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      Four& four = total[r * kConsumers * kGroupThreads];
      Four sum = four;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        slice_[r][i] = slice == 0 ? slice_[r][i] : ptx::add(sum.at[i], slice_[r][i]);
        sum.at[i] = slice_[r][i];
      }
      four = sum;
    }
  }

  QUIRE_DEVICE void add_chunk(bool has_two_groups, bool ends_group) {
    stream_.next();
    const TileCodes<kCode> codes = stream_.codes(0);
    uint32_t a[4][4];
#pragma unroll
    for (int j = 0; j < 4; ++j)
      decode_product<kCode>(codes, stream_.zeros(0, has_two_groups ? j / 2 : 0), j, a[j]);
    ptx::wait_barrier(barrier_at(M::kFull, place_.slot), place_.parity);
    const uint32_t panel =
        ptx::shared_address(ptx::shared_memory() + place_.slot * kPanelBytes);
    if (has_two_groups) {
      multiply<0, 2>(panel, a);
      end_group(0);
      multiply<2, 4>(panel, a);
      end_group(1);
    } else {
      multiply<0, 4>(panel, a);
      if (ends_group) end_group(0);
    }
    if (ptx::thread_index() % 32 == 0) ptx::arrive(barrier_at(M::kEmpty, place_.slot));
    place_.advance();
  }
  template <int kBegin, int kEnd>
  QUIRE_DEVICE void multiply(uint32_t panel, const uint32_t (&a)[4][4]) {
    ptx::pin_registers(partial_);
    ptx::begin_products();
#pragma unroll
    for (int j = kBegin; j < kEnd; ++j)
      ptx::multiply_panel(partial_, a[j], panel_descriptor(panel + static_cast<uint32_t>(j) * 32),
                          j > kBegin || !starts_group_);
    ptx::commit_products();
    ptx::wait_products<0>();
    ptx::pin_registers(partial_);
    starts_group_ = false;
  }
  QUIRE_DEVICE void end_group(int group) {
    const auto scales = stream_.scales(0, group);
    add_scaled(slice_, partial_, scales.low, scales.high);
    starts_group_ = true;
  }

  QUIRE_DEVICE void store(int tile, int first_row) const {
    const int lane = ptx::thread_index() % 32;
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        store_output(args_, first_row + r * 8 + lane % 4 * 2 + i % 2,
                     int64_t{tile} * kQuantTileOutputs + lane / 4 + i / 2 * 8, slice_[r][i]);
    }
  }

  const QuantLinearArgs& args_;
  const QuantItems& items_;
  int tile_;  // of the block's
  typename M::Codes stream_;
  RingPlace<M::kSlots> place_;
  bool starts_group_ = true;
  Sums partial_;  // of the group
  Sums slice_;
};

template <CodeKind kCode>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 1)
    quant_many_rows_kernel(const QuantLinearArgs args, const uint8_t* panels) {
  using M = Memory<kCode>;
  const QuantItems items(args, kTiles, kPanelRows);
  if (ptx::thread_index() == 0) {
    for (int i = 0; i < M::kSlots; ++i) {
      ptx::init_barrier(barrier_at(M::kFull, i), 1);
      ptx::init_barrier(barrier_at(M::kEmpty, i), kTiles);
    }
    ptx::publish_shared_writes();
  }
  ptx::sync_threads();
  if (ptx::thread_index() < kGroupThreads) {
    ptx::give_back_registers<kProducerRegisters>();
    ptx::wait_for_previous_kernel();  // the panels
    ptx::let_next_kernel_start();
    if (ptx::thread_index() == 0) produce<M>(args, items, panels);
  } else {
    ptx::take_registers<kConsumerRegisters>();
    Consumer<kCode> consumer(args, items, ptx::thread_index() / 32 - 4);
    ptx::wait_for_previous_kernel();  // y, where it is added to
    ptx::let_next_kernel_start();
    consumer.run();
  }
}

template <CodeKind kCode>
void launch_code(Stream& stream, const QuantLinearArgs& args, const uint8_t* panels) {
  launch<quant_many_rows_kernel<kCode>>(
      stream,
      {.num_blocks =
           blocks_for(gpu(stream), QuantItems(args, kTiles, kPanelRows).count, 1, 1),
       .num_threads = kThreads,
       .shared_bytes = Memory<kCode>::kTotal},
      args, panels);
}

}  // namespace

void quant_many_rows(Stream& stream, const QuantLinearArgs& args, const QuantSpec& quant,
                     const uint8_t* panels) {
  if (quant.codebook == Codebook::kE2M1) return launch_code<CodeKind::kFp4>(stream, args, panels);
  if (quant.codebook == Codebook::kE4M3) return launch_code<CodeKind::kFp8>(stream, args, panels);
  quant.bits == 4 ? launch_code<CodeKind::kInt4>(stream, args, panels)
                  : launch_code<CodeKind::kInt8>(stream, args, panels);
}

}  // namespace quire::cuda
