// y = x W^T of quantized weights for many rows on Hopper. Two warpgroups decode 64 outputs each into
// registers, from which tensor cores multiply them with the same 128 rows in shared memory, which a
// thread fetches. While one warpgroup decodes, the other multiplies. A row's sums are those of
// quant_linear.cu: product after product, group after group, slice after slice.
#include <algorithm>

#include "kernels/cuda/hopper_code.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/linear/dense_output.h"
#include "kernels/cuda/linear_output.h"
#include "kernels/cuda/quant/quant_stream.h"

namespace quire::cuda {
namespace {

constexpr int kGroupThreads = 128;
constexpr int kConsumers = 2;
constexpr int kThreads = kGroupThreads * (1 + kConsumers);
constexpr int kProducerRegisters = 40;
constexpr int kConsumerRegisters = 232;  // 128 * 40 + 256 * 232 <= 65,536
constexpr int kTiles = kConsumers * 4;   // of 16 outputs, one per consuming warp
constexpr int kRowTiles = kPanelRows / 8;

// Panels go round in a ring of the block, codes in rings of the warps.
template <CodeKind kCode>
struct Memory {
  using Codes = QuantStream<kCode, false, 1, is_4_bit(kCode) ? 8 : 6>;
  static constexpr int kSlots = 5;
  static constexpr int kTotals = kSlots * kPanelBytes;  // [row tile][thread][4] float
  static constexpr int kTotalBytes =
      kRowTiles * kConsumers * kGroupThreads * 4 * int{sizeof(float)};
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
  const int64_t chunks = args.layout.num_chunks;
  const int begin = slice_begin(chunks, items.first_slice());
  const int end = slice_begin(chunks, items.end_slice());
  RingPlace<M::kSlots> place;
  for (int item = items.first(); item < items.count; item += items.step()) {
    const uint8_t* panel = panels + (items.row_block(item) * chunks + begin) * kPanelBytes;
    for (int chunk = begin; chunk < end; ++chunk) {
      uint64_t* full = barrier_at(M::kFull, place.slot);
      ptx::wait_barrier(barrier_at(M::kEmpty, place.slot), place.parity ^ 1);
      ptx::arrive_expecting(full, kPanelBytes);
      ptx::copy_bulk(ptx::shared_memory() + place.slot * kPanelBytes, panel, kPanelBytes, full);
      panel += kPanelBytes;
      place.advance();
    }
  }
}

// A consuming warp.
template <CodeKind kCode>
class Consumer {
 public:
  QUIRE_DEVICE Consumer(const QuantLinearArgs& args, const QuantItems& items, int tile)
      : args_(args),
        items_(items),
        tile_(tile),
        stream_(args, items, tile_, slice_begin(args.layout.num_chunks, items.first_slice()),
                slice_begin(args.layout.num_chunks, items.end_slice()),
                ptx::shared_memory() + M::kCodes + tile * M::Codes::kRingBytes),
        stores_vectors_(!args.accumulate && !args.y_is_float && args.n % 8 == 0 &&
                        args.y_stride % 8 == 0 && reinterpret_cast<uintptr_t>(args.y) % 16 == 0) {}

  QUIRE_DEVICE void run() {
    const int64_t chunks = args_.layout.num_chunks;
    const int begin = slice_begin(chunks, items_.first_slice());
    for (int item = items_.first(); item < items_.count; item += items_.step()) {
      int chunk = begin;
      group_left_ = chunks_of_first_group(args_, chunk);
#pragma unroll 1
      for (int slice = items_.first_slice(); slice < items_.end_slice(); ++slice) {
        sum_slice(chunk, slice_begin(chunks, slice + 1));
        end_slice(slice, items_.first_tile(item) + tile_, items_.row_block(item) * kPanelRows);
      }
    }
  }

 private:
  using M = Memory<kCode>;
  using Sums = float[kRowTiles][4];  // of a lane's outputs and rows
  using Operands = uint32_t[4][4];   // of the four products of a chunk

  QUIRE_DEVICE static void clear(Sums& sums) {
#pragma unroll
    for (auto& tile : sums)
#pragma unroll
      for (float& x : tile) x = 0.0f;
  }

  QUIRE_DEVICE void sum_slice(int& chunk, int end) {
    const int per_group = args_.chunks_per_group;
    starts_group_ = true;
    clear(slice_);
#pragma unroll 1
    for (; chunk < end; ++chunk) {
      bool ends_group = chunk + 1 == end;
      if (--group_left_ <= 0) {
        ends_group |= !scales_codes(kCode);
        group_left_ = per_group;
      }
      add_chunk(ends_group);
    }
  }
  QUIRE_DEVICE void end_slice(int slice, int tile, int first_row) {
    if (args_.parts > 1) {
      float* sums = args_.slice_sums + slice * args_.num_rows * args_.n;
      return store(sums, args_.n, false, tile, first_row);
    }
    add_to_total(slice);
    if (slice + 1 < kQuantSlices) return;
    if (stores_vectors_) return store_vectors(tile, first_row);
    args_.y_is_float
        ? store(static_cast<float*>(args_.y), args_.y_stride, true, tile, first_row)
        : store(static_cast<bfloat16*>(args_.y), args_.y_stride, true, tile, first_row);
  }
  // Of two tiles of eight rows and the warp's 16 outputs each lane stores eight outputs of a row.
  QUIRE_DEVICE void store_vectors(int tile, int first_row) const {
    const int lane = ptx::thread_index() % 32;
    const bool has_bias = args_.bias != nullptr;
    const int output = tile * 16 + lane / 4;
    const float bias[2] = {has_bias && output < args_.n ? args_.bias[output] : 0.0f,
                           has_bias && output + 8 < args_.n ? args_.bias[output + 8] : 0.0f};
#pragma unroll
    for (int r = 0; r < kRowTiles; r += 2) {
      Elements<4, uint32_t> packed;  // [row tile][half of outputs]
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float pair[2];  // of neighbouring rows
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const float sum = slice_[r + i / 2][i % 2 * 2 + j];
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
  // Of slice_, as store_output() does it for results; sums of slices go as they are.
  template <typename Y>
  QUIRE_DEVICE void store(Y* y, int64_t stride, bool is_result, int tile, int first_row) const {
    const int lane = ptx::thread_index() % 32;
    const int rows_left = static_cast<int>(args_.num_rows) - first_row - lane % 4 * 2;
    const bool has_bias = is_result && args_.bias != nullptr;
    const bool accumulates = is_result && args_.accumulate;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int output = tile * 16 + lane / 4 + half * 8;
      if (output >= args_.n) return;
      const float bias = has_bias ? args_.bias[output] : 0.0f;
      Y* to = y + (first_row + lane % 4 * 2) * stride + output;
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r, to += 8 * stride) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          if (r * 8 + j >= rows_left) continue;
          float sum = slice_[r][half * 2 + j];
          if (has_bias) sum = ptx::add(sum, bias);
          Y& at = to[j * stride];
          at = narrow<Y>(accumulates ? ptx::add(widen(at), sum) : sum);
        }
      }
    }
  }

  // The total of the slices before this one lies in shared memory; that of all stays in slice_.
  QUIRE_DEVICE void add_to_total(int slice) {
    using Four = Elements<4, float>;
    auto* total = reinterpret_cast<Four*>(ptx::shared_memory() + M::kTotals) + ptx::thread_index() -
                  kGroupThreads;
    constexpr int kNext = kConsumers * kGroupThreads;
#pragma unroll
    for (int r = 0; r < kRowTiles && slice > 0; ++r) {
      const Four before = total[r * kNext];
#pragma unroll
      for (int i = 0; i < 4; ++i) slice_[r][i] = ptx::add(before.at[i], slice_[r][i]);
    }
#pragma unroll
    for (int r = 0; r < kRowTiles && slice + 1 < kQuantSlices; ++r) {
      total[r * kNext] = {{slice_[r][0], slice_[r][1], slice_[r][2], slice_[r][3]}};
    }
  }

  QUIRE_DEVICE void add_chunk(bool ends_group) {
    const bool has_two_groups = !scales_codes(kCode) && args_.chunks_per_group == 0;
    Operands a;
    stream_.next();
    decode(a);
    ptx::wait_barrier(barrier_at(M::kFull, place_.slot), place_.parity);
    const uint32_t panel = ptx::shared_address(ptx::shared_memory() + place_.slot * kPanelBytes);
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
  QUIRE_DEVICE void decode(Operands& a) const {
    const TileCodes<kCode> codes = stream_.codes(0);
    const TileZeros zeros[2] = {stream_.zeros(0, 0),
                                stream_.zeros(0, args_.chunks_per_group == 0 ? 1 : 0)};
#pragma unroll
    for (int j = 0; j < 4; ++j) decode_product<kCode>(codes, zeros[j / 2], j, a[j]);
  }
  // Adds these products of the chunk.
  template <int kBegin, int kEnd>
  QUIRE_DEVICE void multiply(uint32_t panel, const Operands& a) {
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
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        slice_[r][i] =
            ptx::multiply_add(partial_[r][i], i < 2 ? scales.low : scales.high, slice_[r][i]);
    starts_group_ = true;
  }

  const QuantLinearArgs& args_;
  const QuantItems& items_;
  int tile_;  // of the block's
  typename M::Codes stream_;
  RingPlace<M::kSlots> place_;
  int group_left_ = 0;  // chunks
  bool starts_group_ = true;
  bool stores_vectors_;  // 16 bytes of y at once
  Sums partial_;         // of the group
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

constexpr int kFoldThreads = 256;

// A thread: an output of a row.
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kFoldThreads, 1) fold_slices_kernel(const QuantLinearArgs args) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const int64_t size = args.num_rows * args.n;
  const int64_t at = int64_t{ptx::block_index()} * kFoldThreads + ptx::thread_index();
  if (at >= size) return;
  float sums[kQuantSlices];
#pragma unroll
  for (int slice = 0; slice < kQuantSlices; ++slice)
    sums[slice] = args.slice_sums[slice * size + at];
#pragma unroll
  for (int slice = 1; slice < kQuantSlices; ++slice) sums[0] = ptx::add(sums[0], sums[slice]);
  store_output(args, at / args.n, at % args.n, sums[0]);
}

// As many parts as the GPU has room for, if their sums have room and are soon added: what adding
// costs goes with the sums, what it saves with K.
int32_t parts_of(const Stream& stream, int64_t num_items, const QuantLinearArgs& args,
                 const QuantScratch& scratch) {
  constexpr int64_t kMostBytesPerChunk = 256 << 10;
  const int64_t sum_bytes = kQuantSlices * args.num_rows * args.n * int64_t{sizeof(float)};
  if (sum_bytes > std::min(scratch.sum_bytes, args.layout.num_chunks * kMostBytesPerChunk))
    return 1;
  int32_t parts = 1;
  while (parts < kQuantSlices && num_items * parts * 2 <= gpu(stream).info().num_sms) parts *= 2;
  return parts;
}

void fold_slices(Stream& stream, const QuantLinearArgs& args) {
  const int64_t size = args.num_rows * args.n;
  launch<fold_slices_kernel>(
      stream, {.num_blocks = (size + kFoldThreads - 1) / kFoldThreads, .num_threads = kFoldThreads},
      args);
}

template <CodeKind kCode>
void launch_code(Stream& stream, QuantLinearArgs args, const QuantScratch& scratch) {
  const int64_t num_items = QuantItems(args, kTiles, kPanelRows).count;
  args.parts = parts_of(stream, num_items, args, scratch);
  args.slice_sums = scratch.sums;
  arrange_panels(stream, args, scratch.panels);
  const int64_t num_blocks = blocks_for(gpu(stream), num_items * args.parts, 1, 1);
  launch<quant_many_rows_kernel<kCode>>(stream,
                                        {.num_blocks = num_blocks / args.parts * args.parts,
                                         .num_threads = kThreads,
                                         .shared_bytes = Memory<kCode>::kTotal},
                                        args, scratch.panels);
  if (args.parts > 1) fold_slices(stream, args);
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
