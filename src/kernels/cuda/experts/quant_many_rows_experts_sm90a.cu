// Products of experts with quantized weights for many rows on Hopper. Two warpgroups decode 64
// outputs each into registers, from which tensor cores multiply them with the same rows of x in
// shared memory, which a thread fetches; while a chunk is multiplied, the next one is decoded. With
// a gate one warpgroup has the gates and the other what they gate. A row's sums are those of
// quant_few_rows_experts.cu: product after product, group after group, slice after slice.
#include "kernels/cuda/experts/quant_experts.h"
#include "kernels/cuda/hopper_code.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/quant/quant_stream.h"

namespace quire::cuda {
namespace {

constexpr int kGroupThreads = 128;
constexpr int kConsumers = 2;
constexpr int kConsumerThreads = kConsumers * kGroupThreads;
constexpr int kThreads = kGroupThreads + kConsumerThreads;
constexpr int kProducerRegisters = 40;
constexpr int kConsumerRegisters = 232;  // 128 * 40 + 256 * 232 <= 65,536
constexpr int kTiles = kConsumers * 4;   // of 16 outputs, one per consuming warp
constexpr int kConsumerBarrier = 1;

// Panels go round in a ring of the block, codes in rings of the warps.
template <CodeKind kCodeOf, int kRowsOf>
struct Shape {
  static constexpr CodeKind kCode = kCodeOf;
  static constexpr int kRows = kRowsOf;
  static constexpr int kRowTiles = kRows / 8;
  using Codes = QuantStream<kCode, false, 1, is_4_bit(kCode) ? 8 : 6, QuantExpertItems>;
  static constexpr int kSlots = kRows == 64 ? 8 : 5;
  static constexpr int kSlotBytes = kRows * kPanelRowBytes;
  static constexpr int kTotals = kSlots * kSlotBytes;  // [row tile][consuming thread][4] float
  static constexpr int kCodes = kTotals + kRowTiles * kConsumerThreads * 4 * int{sizeof(float)};
  static constexpr int kFull = kCodes + kTiles * Codes::kRingBytes;
  static constexpr int kEmpty = kFull + kSlots * 8;
  static constexpr int kSharedBytes = kEmpty + kSlots * 8;
  static_assert(kSlotBytes % kPanelAlignment == 0 && kFull % 8 == 0 && kSharedBytes <= 227 << 10);
};

QUIRE_DEVICE uint64_t* barrier_at(int offset, int i) {
  return reinterpret_cast<uint64_t*>(ptx::shared_memory() + offset) + i;
}

// One thread fetches the panels. What lies behind the rows of a tile stays what it was: nobody
// stores what comes of it.
template <typename S>
QUIRE_DEVICE void produce(const QuantExpertArgs& args, const QuantExpertItems& items,
                          const uint8_t* panels) {
  RingPlace<S::kSlots> place;
  for (int item = items.first(); item < items.count; item += items.step()) {
    const ExpertTile tile = items.rows(args, item);
    const int num_bytes = tile.num_rows * kPanelRowBytes;
    const uint8_t* panel = panels + int64_t{tile.first_row} * kPanelRowBytes;
    for (int chunk = 0; chunk < args.layout.num_chunks; ++chunk) {
      uint64_t* const full = barrier_at(S::kFull, place.slot);
      ptx::wait_barrier(barrier_at(S::kEmpty, place.slot), place.parity ^ 1);
      ptx::arrive_expecting(full, num_bytes);
      ptx::copy_bulk(ptx::shared_memory() + place.slot * S::kSlotBytes, panel, num_bytes, full);
      panel += args.num_rows * kPanelRowBytes;
      place.advance();
    }
  }
}

// A consuming warp.
template <typename S>
class Consumer {
 public:
  // `warp`: of the consuming ones.
  QUIRE_DEVICE Consumer(const QuantExpertArgs& args, const QuantExpertItems& items, int warp)
      : args_(args),
        items_(items),
        tile_(args.is_gated() ? warp % 4 : warp),
        stream_(args, items, tile_, 0, static_cast<int>(args.layout.num_chunks),
                ptx::shared_memory() + S::kCodes + warp * S::Codes::kRingBytes) {
    decode_next();
    take_next();
  }

  QUIRE_DEVICE void run() {
    const int64_t chunks = args_.layout.num_chunks;
    for (int item = items_.first(); item < items_.count; item += items_.step()) {
      int chunk = 0;
      group_left_ = chunks_of_first_group(args_, chunk);
#pragma unroll 1
      for (int slice = 0; slice < kExpertSlices; ++slice) {
        sum_slice(chunk, expert_slice_begin(chunks, slice + 1));
        add_to_total(slice);
      }
      const ExpertTile rows = items_.rows(args_, item);
      const int tile = items_.first_tile(item) + tile_;
      if (args_.is_gated()) {
        store_gated(rows, tile);
      } else if (args_.stage == ExpertStage::kInside) {
        store<ExpertStage::kInside>(rows, tile);
      } else {
        store<ExpertStage::kOutputs>(rows, tile);
      }
    }
  }

 private:
  using Sums = float[S::kRowTiles][4];  // of a lane's outputs and rows
  using Operands = uint32_t[4][4];      // of the four products of a chunk
  using Scales = typename S::Codes::Pair;

  QUIRE_DEVICE void sum_slice(int& chunk, int end) {
    starts_group_ = true;
#pragma unroll
    for (auto& tile : slice_)
#pragma unroll
      for (float& x : tile) x = 0.0f;
#pragma unroll 1
    for (; chunk < end; ++chunk) {
      bool ends_group = chunk + 1 == end;
      if (--group_left_ <= 0) {
        ends_group |= !scales_codes(S::kCode);
        group_left_ = args_.chunks_per_group;
      }
      add_chunk(ends_group);
    }
  }

  QUIRE_DEVICE void add_chunk(bool ends_group) {
    const bool has_two_groups = !scales_codes(S::kCode) && args_.chunks_per_group == 0;
    const Scales scales = stream_.scales(0, 0);
    const Scales behind = stream_.scales(0, has_two_groups ? 1 : 0);
    ptx::wait_barrier(barrier_at(S::kFull, place_.slot), place_.parity);
    const uint32_t panel = ptx::shared_address(ptx::shared_memory() + place_.slot * S::kSlotBytes);
    if (has_two_groups) {
      begin<0, 2>(panel);
      decode_next();
      wait();
      end_group(scales);
      begin<2, 4>(panel);
      wait();
      release();
      end_group(behind);
    } else {
      begin<0, 4>(panel);
      decode_next();
      wait();
      release();
      if (ends_group) end_group(scales);
    }
    take_next();
  }
  // The codes of the next chunk, which may be another item's; behind the last what lies there.
  QUIRE_DEVICE void decode_next() {
    stream_.next();
    const TileCodes<S::kCode> codes = stream_.codes(0);
    const TileZeros zeros[2] = {stream_.zeros(0, 0),
                                stream_.zeros(0, args_.chunks_per_group == 0 ? 1 : 0)};
    uint32_t bits = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      decode_product<S::kCode>(codes, zeros[j / 2], j, next_[j]);
      bits ^= next_[j][0] ^ next_[j][1] ^ next_[j][2] ^ next_[j][3];
    }
    ptx::compute_before_waiting(bits);
  }
  QUIRE_DEVICE void take_next() {
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int r = 0; r < 4; ++r) a_[j][r] = next_[j][r];
  }
  // Begins to add these products of the chunk.
  template <int kBegin, int kEnd>
  QUIRE_DEVICE void begin(uint32_t panel) {
    ptx::pin_registers(partial_);
    ptx::begin_products();
#pragma unroll
    for (int j = kBegin; j < kEnd; ++j) {
      const uint64_t x = panel_descriptor(panel + static_cast<uint32_t>(j) * 32);
      const bool adds = j > kBegin || !starts_group_;
      if constexpr (S::kRowTiles == 8) {
        ptx::multiply_panel<false>(partial_, a_[j], x, adds);
      } else {
        ptx::multiply_panel(partial_, a_[j], x, adds);
      }
    }
    ptx::commit_products();
    starts_group_ = false;
  }
  QUIRE_DEVICE void wait() {
    ptx::wait_products<0>();
    ptx::pin_registers(partial_);
  }
  QUIRE_DEVICE void release() {
    if (ptx::thread_index() % 32 == 0) ptx::arrive(barrier_at(S::kEmpty, place_.slot));
    place_.advance();
  }
  QUIRE_DEVICE void end_group(const Scales& scales) {
#pragma unroll
    for (int r = 0; r < S::kRowTiles; ++r)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        slice_[r][i] =
            ptx::multiply_add(partial_[r][i], i < 2 ? scales.low : scales.high, slice_[r][i]);
    starts_group_ = true;
  }

  using Four = Elements<4, float>;
  // Of row tile 0; those of the others come kConsumerThreads further each.
  QUIRE_DEVICE static Four* totals_of(int consuming_thread) {
    return reinterpret_cast<Four*>(ptx::shared_memory() + S::kTotals) + consuming_thread;
  }
  // The total of the slices before this one lies in shared memory; that of all stays in slice_, too.
  QUIRE_DEVICE void add_to_total(int slice) {
    Four* const total = totals_of(ptx::thread_index() - kGroupThreads);
#pragma unroll
    for (int r = 0; r < S::kRowTiles; ++r) {
      Four sum = total[r * kConsumerThreads];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        slice_[r][i] = slice == 0 ? slice_[r][i] : ptx::add(sum.at[i], slice_[r][i]);
        sum.at[i] = slice_[r][i];
      }
      total[r * kConsumerThreads] = sum;
    }
  }

  // The row and the output of sum i of row tile r.
  QUIRE_DEVICE static int row_of(int r, int i) {
    return r * 8 + ptx::thread_index() % 4 * 2 + i % 2;
  }
  QUIRE_DEVICE static int output_at(int tile, int i) {
    return tile * 16 + ptx::thread_index() % 32 / 4 + i / 2 * 8;
  }
  template <ExpertStage kStage>
  QUIRE_DEVICE void store(const ExpertTile& rows, int tile) const {
#pragma unroll
    for (int r = 0; r < S::kRowTiles; ++r)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        store_output<kStage>(args_, rows, row_of(r, i), output_at(tile, i), 0.0f, slice_[r][i]);
  }
  // Each warpgroup stores half of the rows, whose gates and what they gate are in shared memory.
  QUIRE_DEVICE void store_gated(const ExpertTile& rows, int tile) const {
    constexpr int kHalf = S::kRowTiles / 2;
    const int thread = ptx::thread_index() - kGroupThreads;
    const int first = thread / kGroupThreads * kHalf;
    const Four* const gates = totals_of(thread % kGroupThreads) + first * kConsumerThreads;
    ptx::sync_named(kConsumerBarrier, kConsumerThreads);  // totals are there
#pragma unroll 2
    for (int r = 0; r < kHalf; ++r) {
      const Four gate = gates[r * kConsumerThreads];
      const Four up = gates[r * kConsumerThreads + kGroupThreads];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        store_output<ExpertStage::kGatedInside>(args_, rows, row_of(first + r, i),
                                                output_at(tile, i), gate.at[i], up.at[i]);
    }
    ptx::sync_named(kConsumerBarrier, kConsumerThreads);  // and may be those of the next item
  }

  const QuantExpertArgs& args_;
  const QuantExpertItems& items_;
  int tile_;  // of the column's
  typename S::Codes stream_;
  RingPlace<S::kSlots> place_;
  int group_left_ = 0;  // chunks
  bool starts_group_ = true;
  Operands a_;
  Operands next_;
  Sums partial_;  // of the group
  Sums slice_;
};

template <typename S>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 1)
    quant_many_rows_experts_kernel(const QuantExpertArgs args, const uint8_t* panels) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const int warp = ptx::shuffle(ptx::thread_index() / 32, 0) - kGroupThreads / 32;
  const QuantExpertItems items(args, ExpertColumns(args, kTiles), warp < 4);
  if (ptx::thread_index() == 0) {
    for (int i = 0; i < S::kSlots; ++i) {
      ptx::init_barrier(barrier_at(S::kFull, i), 1);
      ptx::init_barrier(barrier_at(S::kEmpty, i), kTiles);
    }
    ptx::publish_shared_writes();
  }
  ptx::sync_threads();
  if (ptx::thread_index() < kGroupThreads) {
    ptx::give_back_registers<kProducerRegisters>();
    if (ptx::thread_index() == 0) produce<S>(args, items, panels);
  } else {
    ptx::take_registers<kConsumerRegisters>();
    Consumer<S>(args, items, warp).run();
  }
}

constexpr int kArrangingThreads = 256;
constexpr int kArrangingBlocks = 4;  // of a tile

// A thread: 32 inputs of a row, which are two products' (quant_weight.h).
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kArrangingThreads, 1)
    arrange_expert_panels_kernel(const QuantExpertArgs args, uint8_t* panels) {
  using Eight = Elements<4, uint32_t>;  // bf16
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  if (ptx::block_index() / kArrangingBlocks >= *args.num_tiles) return;
  const ExpertTile tile = args.tiles[ptx::block_index() / kArrangingBlocks];
  const int units = static_cast<int>(args.layout.num_chunks) * 2;
  const int first = ptx::block_index() % kArrangingBlocks * kArrangingThreads + ptx::thread_index();
  for (int at = first; at < tile.num_rows * units; at += kArrangingBlocks * kArrangingThreads) {
    const int row = at / units;
    const int unit = at % units;
    const int input = unit * static_cast<int>(kQuantUnitInputs);
    const bfloat16* const x = expert_inputs(args, tile.first_row + row) + input;
    Eight lanes[4] = {};  // what each lane of a quad multiplies
#pragma unroll
    for (int t = 0; t < 4; ++t)
      if (input + t * 8 < args.k) lanes[t] = *reinterpret_cast<const Eight*>(x + t * 8);
    uint8_t* const panel =
        panels + (unit / 2 * args.num_rows + tile.first_row) * int64_t{kPanelRowBytes};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Eight part = {{lanes[0].at[i], lanes[1].at[i], lanes[2].at[i], lanes[3].at[i]}};
      *reinterpret_cast<Eight*>(panel + panel_offset(row, unit % 2 * 4 + i, 0)) = part;
    }
  }
}

template <CodeKind kCode, int kRows>
void launch_shape(Stream& stream, const QuantExpertArgs& args, int64_t max_tiles,
                  const uint8_t* panels) {
  using S = Shape<kCode, kRows>;
  const int64_t num_items = max_tiles * ExpertColumns(args, kTiles).count;
  launch<quant_many_rows_experts_kernel<S>>(stream,
                                            {.num_blocks = blocks_for(gpu(stream), num_items, 1, 1),
                                             .num_threads = kThreads,
                                             .shared_bytes = S::kSharedBytes},
                                            args, panels);
}

}  // namespace

void quant_many_rows_experts_sm90a(Stream& stream, const QuantExpertArgs& args,
                                   const QuantSpec& quant, int tile_rows, int64_t max_tiles,
                                   uint8_t* panels) {
  launch<arrange_expert_panels_kernel>(
      stream, {.num_blocks = max_tiles * kArrangingBlocks, .num_threads = kArrangingThreads}, args,
      panels);
  const auto launch_with = [&]<CodeKind kCode> {
    tile_rows <= 64 ? launch_shape<kCode, 64>(stream, args, max_tiles, panels)
                    : launch_shape<kCode, 128>(stream, args, max_tiles, panels);
  };
  if (quant.codebook == Codebook::kE2M1) return launch_with.operator()<CodeKind::kFp4>();
  if (quant.codebook == Codebook::kE4M3) return launch_with.operator()<CodeKind::kFp8>();
  quant.bits == 4 ? launch_with.operator()<CodeKind::kInt4>()
                  : launch_with.operator()<CodeKind::kInt8>();
}

}  // namespace quire::cuda
