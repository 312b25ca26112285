// Products of experts with quantized weights for many rows on Hopper. Two warpgroups decode 64
// outputs each into registers. Tensor cores multiply these with the same rows of x in shared
// memory, which one thread fetches (panel_sums.h). With a gate, one warpgroup has the gates and the
// other the values that they multiply. A row's sums are those of quant_few_rows_experts.cu: product
// after product, group after group, slice after slice.
#include <type_traits>

#include "kernels/cuda/experts/quant_experts.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/quant/panel_sums.h"

namespace quire::cuda {
namespace {

constexpr int kConsumers = 2;
constexpr int kThreads = kWarpgroupThreads * (1 + kConsumers);
constexpr int kProducerRegisters = 40;
constexpr int kConsumerRegisters = 232;  // 128 * 40 + 256 * 232 = 384 * 168
constexpr int kConsumerBarrier = 1;

// Panels go through a ring of the block, codes through rings of the warps.
template <CodeKind kCodeOf>
struct Shape {
  static constexpr CodeKind kCode = kCodeOf;
  static constexpr int kRowTiles = kPanelRows / 8;
  using Codes = QuantStream<kCode, false, 1, is_4_bit(kCode) ? 8 : 6, QuantExpertItems>;
  static constexpr int kTiles = kConsumers * 4;  // 16 outputs each, one for each consuming warp
  static constexpr int kConsumerThreads = kConsumers * kWarpgroupThreads;
  static constexpr int kPanelBytes = cuda::kPanelBytes;
  static constexpr int kSlots = 5;
  static constexpr int kTotals = kSlots * kPanelBytes;  // [row tile][consuming thread][4] float
  static constexpr int kCodes = kTotals + kRowTiles * kConsumerThreads * 4 * int{sizeof(float)};
  static constexpr int kFull = kCodes + kTiles * Codes::kRingBytes;
  static constexpr int kEmpty = kFull + kSlots * 8;
  static constexpr int kSharedBytes = kEmpty + kSlots * 8;
  static_assert(kPanelBytes % kPanelAlignment == 0 && kFull % 8 == 0 && kSharedBytes <= 227 << 10);
};

// One thread fetches the panels. Memory past the rows of a tile keeps its old content; outputs
// computed from it are not stored.
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
      ptx::copy_bulk(ptx::shared_memory() + place.slot * S::kPanelBytes, panel, num_bytes, full);
      panel += args.num_rows * kPanelRowBytes;
      place.advance();
    }
  }
}

// A consuming warp.
template <typename S>
class Consumer : PanelSums<S> {
 public:
  QUIRE_DEVICE Consumer(const QuantExpertArgs& args, const QuantExpertItems& items)
      : Base(args, items, tile_of_column(args), 0, static_cast<int>(args.layout.num_chunks)),
        args_(args),
        items_(items) {}

  QUIRE_DEVICE void run() {
    const int64_t chunks = args_.layout.num_chunks;
    for (int item = items_.first(); item < items_.count; item += items_.step()) {
      int chunk = 0;
      this->begin_item(chunk);
#pragma unroll 1
      for (int slice = 0; slice < kExpertSlices; ++slice) {
        this->sum_slice(chunk, expert_slice_begin(chunks, slice + 1));
        this->add_to_total(slice, false);
      }
      const ExpertTile rows = items_.rows(args_, item);
      const int output =
          (items_.first_tile(item) + tile_of_column(args_)) * 16 + ptx::thread_index() % 32 / 4;
      if (args_.is_gated()) {
        args_.activation.activation == Activation::kSilu ? store_gated<true>(rows, output)
                                                         : store_gated<false>(rows, output);
      } else if (args_.stage == ExpertStage::kInside) {
        store<ExpertStage::kInside>(rows, output);
      } else {
        store<ExpertStage::kOutputs>(rows, output);
      }
    }
  }

 private:
  using Base = PanelSums<S>;
  using Four = typename Base::Four;

  QUIRE_DEVICE static int tile_of_column(const QuantExpertArgs& args) {
    return args.is_gated() ? Base::warp() % 4 : Base::warp();
  }

  // The biases of a lane: sums 2 h and 2 h + 1 of a row tile are for the lane's first output, plus
  // 8 h.
  struct Biases {
    bool are_there;
    float at[2];
    QUIRE_DEVICE float add(int i, float sum) const {
      return are_there ? ptx::add(sum, at[i / 2]) : sum;
    }
  };
  QUIRE_DEVICE Biases biases_of(const Stacked<float>& bias, int expert, int output) const {
    Biases biases{bias.first != nullptr, {}};
#pragma unroll
    for (int h = 0; h < 2; ++h)
      if (biases.are_there && output + 8 * h < args_.n)
        biases.at[h] = bias.first[expert * bias.stride + output + 8 * h];
    return biases;
  }

  // Returns where a row of the tile begins in the results of the stage.
  template <ExpertStage kStage>
  QUIRE_DEVICE auto* row_at(const ExpertTile& rows, int row) const {
    const int64_t at = rows.first_row + row;
    if constexpr (kStage == ExpertStage::kOutputs) {
      return args_.outputs + pair_of(args_, at) * args_.n;
    } else {
      return inside_at(args_, at, 0);
    }
  }
  // Stores totals from shared memory. The places of several rows are looked up before any is
  // stored.
  template <ExpertStage kStage>
  QUIRE_DEVICE void store(const ExpertTile& rows, int output) const {
    constexpr int kAtOnce = 4;  // row tiles
    const Biases biases = biases_of(args_.bias, rows.expert, output);
#pragma unroll 1
    for (int first = 0; first < S::kRowTiles; first += kAtOnce) {
      decltype(row_at<kStage>(rows, 0)) to[kAtOnce][2] = {};  // null past the last row
#pragma unroll
      for (int r = 0; r < kAtOnce; ++r)
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const int row = row_of(first + r) + j;
          if (row < rows.num_rows) to[r][j] = row_at<kStage>(rows, row) + output;
        }
#pragma unroll
      for (int r = 0; r < kAtOnce; ++r) {
        const Four sums = Base::total()[(first + r) * S::kConsumerThreads];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (to[r][i % 2] == nullptr || output + i / 2 * 8 >= args_.n) continue;
          float result = biases.add(i, sums.at[i]);
          if constexpr (kStage == ExpertStage::kInside)
            result = activate(args_.activation.activation, result);
          using Y = std::remove_pointer_t<std::remove_reference_t<decltype(to[0][0])>>;
          to[r][i % 2][i / 2 * 8] = narrow<Y>(result);
        }
      }
    }
  }
  // Each warpgroup stores half of the rows; shared memory has their gates and the values to
  // multiply.
  template <bool kIsSilu>
  QUIRE_DEVICE void store_gated(const ExpertTile& rows, int output) const {
    constexpr ExpertStage kStage = ExpertStage::kGatedInside;
    constexpr int kHalf = S::kRowTiles / 2;
    const Biases gate_biases = biases_of(args_.gate_bias, rows.expert, output);
    const Biases biases = biases_of(args_.bias, rows.expert, output);
    ExpertActivation how = args_.activation;
    if (kIsSilu) how.activation = Activation::kSilu;
    const int group = Base::warp() / 4;
    const int first = group * kHalf;
    const Four* const gates =
        Base::total() - group * kWarpgroupThreads + first * S::kConsumerThreads;
    ptx::sync_named(kConsumerBarrier, S::kConsumerThreads);  // the totals are written
#pragma unroll 1
    for (int r = 0; r < kHalf; ++r) {
      const Four gate = gates[r * S::kConsumerThreads];
      const Four up = gates[r * S::kConsumerThreads + kWarpgroupThreads];
      const int row = row_of(first + r);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float result =
            inside_of(how, gate_biases.add(i, gate.at[i]), biases.add(i, up.at[i]));
        if (row + i % 2 < rows.num_rows && output + i / 2 * 8 < args_.n)
          row_at<kStage>(rows, row + i % 2)[output + i / 2 * 8] = narrow<bfloat16>(result);
      }
    }
    ptx::sync_named(kConsumerBarrier, S::kConsumerThreads);  // and may be overwritten
  }
  // Returns the lane's first row of a row tile.
  QUIRE_DEVICE static int row_of(int tile) { return tile * 8 + ptx::thread_index() % 4 * 2; }

  const QuantExpertArgs& args_;
  const QuantExpertItems& items_;
};

template <typename S>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 1)
    quant_many_rows_experts_kernel(const QuantExpertArgs args, const uint8_t* panels) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const int warp = ptx::shuffle(ptx::thread_index() / 32, 0) - kWarpgroupThreads / 32;
  const QuantExpertItems items(args, ExpertColumns(args, S::kTiles), warp < 4);
  init_panel_ring<S>();
  if (ptx::thread_index() < kWarpgroupThreads) {
    ptx::give_back_registers<kProducerRegisters>();
    if (ptx::thread_index() == 0) produce<S>(args, items, panels);
  } else {
    ptx::take_registers<kConsumerRegisters>();
    Consumer<S>(args, items).run();
  }
}

constexpr int kArrangingThreads = 256;
constexpr int kArrangingBlocks = 4;  // for each tile

// A thread arranges 32 inputs of a row, which two products use (quant_weight.h).
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
    Eight lanes[4] = {};  // by lane of a quad: what it multiplies
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

template <CodeKind kCode>
void launch_code(Stream& stream, const QuantExpertArgs& args, int64_t max_tiles,
                 const uint8_t* panels) {
  using S = Shape<kCode>;
  const int64_t num_items = max_tiles * ExpertColumns(args, S::kTiles).count;
  launch<quant_many_rows_experts_kernel<S>>(stream,
                                            {.num_blocks = blocks_for(gpu(stream), num_items, 1, 1),
                                             .num_threads = kThreads,
                                             .shared_bytes = S::kSharedBytes},
                                            args, panels);
}

}  // namespace

void quant_many_rows_experts_sm90a(Stream& stream, const QuantExpertArgs& args,
                                   const QuantSpec& quant, int64_t max_tiles, uint8_t* panels) {
  launch<arrange_expert_panels_kernel>(
      stream, {.num_blocks = max_tiles * kArrangingBlocks, .num_threads = kArrangingThreads}, args,
      panels);
  const auto launch_with = [&]<CodeKind kCode> {
    launch_code<kCode>(stream, args, max_tiles, panels);
  };
  if (quant.codebook == Codebook::kE2M1) return launch_with.operator()<CodeKind::kFp4>();
  if (quant.codebook == Codebook::kE4M3) return launch_with.operator()<CodeKind::kFp8>();
  quant.bits == 4 ? launch_with.operator()<CodeKind::kInt4>()
                  : launch_with.operator()<CodeKind::kInt8>();
}

}  // namespace quire::cuda
