// Expert products of 64 or 128 rows on Hopper: a block multiplies them, 64 per warpgroup, by 128 or
// 256 weight rows. All threads copy the next inputs into a ring of panels while the tensor cores
// work. Products of 16 inputs are added in the order of K, as in the kernels for fewer rows.
#include "kernels/cuda/experts/expert_products.h"
#include "kernels/cuda/hopper_code.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/warpgroup_layout.h"

namespace quire::cuda {
namespace {

constexpr int kGroupRows = 64;
constexpr int kRowParts = kPanelRowBytes / 16;

// A block has a tile of 64 rows per warpgroup. For gated products, half of its weight rows are
// gates and the others the rows that these multiply. The time of tiles of 64 rows is that of
// reading weights: two such blocks share an SM, so that one reads while the other begins or ends.
template <ExpertStage kStageOf, int kGroupsOf>
struct ExpertBlockShape {
  static constexpr ExpertStage kStage = kStageOf;
  static constexpr bool kGated = kStage == ExpertStage::kGatedInside;
  static constexpr int kGroups = kGroupsOf;
  static constexpr int kThreads = kGroups * kWarpgroupThreads;
  static constexpr int kBlocksPerSm = kGroups == 1 ? 2 : 1;
  static constexpr int kRows = kGroups * kGroupRows;
  static constexpr int kWeightRows = kGroups * 128;
  static constexpr int kOutputs = kGated ? kWeightRows / 2 : kWeightRows;
  // The ring. A slot holds 64 inputs of the rows of x, then of the weight rows.
  static constexpr int kSlots = 4;
  static constexpr int kXBytes = kRows * kPanelRowBytes;
  static constexpr int kSlotBytes = kXBytes + kWeightRows * kPanelRowBytes;
  static constexpr int kSharedBytes = kSlots * kSlotBytes;
  // A thread copies the same part of every kRowsAtOnce-th row.
  static constexpr int kRowsAtOnce = kThreads / kRowParts;
  static constexpr int kXCopies = kRows / kRowsAtOnce;
  static constexpr int kWeightCopies = kWeightRows / kRowsAtOnce;
  using Sums = float[kWeightRows / 8][4];  // of each lane
};

template <typename Shape>
class PanelCopier {
 public:
  QUIRE_DEVICE PanelCopier(const ExpertProductArgs& args, const ExpertTile& tile,
                           int64_t first_output)
      : k_(args.k),
        line_(ptx::thread_index() / kRowParts),
        part_(ptx::thread_index() % kRowParts),
        outputs_left_(args.n - first_output - line_) {
#pragma unroll
    for (int i = 0; i < Shape::kXCopies; ++i) {
      const int row = line_ + i * Shape::kRowsAtOnce;
      x_[i] = row < tile.num_rows ? input_row<Shape::kStage>(args, tile.first_row + row) : nullptr;
    }
    const int64_t first = (first_output + line_) * k_;
    weight_ = args.weight.first + tile.expert * args.weight.stride + first;
    if constexpr (Shape::kGated) gate_ = args.gate.first + tile.expert * args.gate.stride + first;
    somewhere_ = args.weight.first;
  }

  // Starts copying the inputs of a step, as a group of copies, which is empty after the last step.
  QUIRE_DEVICE void start(int64_t step) const {
    uint8_t* const x = ptx::shared_memory() + step % Shape::kSlots * Shape::kSlotBytes;
    const int64_t input = step * kPanelDims + part_ * 8;
    if (step * kPanelDims < k_) {
#pragma unroll
      for (int i = 0; i < Shape::kXCopies; ++i) {
        const bool here = x_[i] != nullptr && input < k_;
        copy(x, line_ + i * Shape::kRowsAtOnce, here ? x_[i] + input : nullptr);
      }
#pragma unroll
      for (int i = 0; i < Shape::kWeightCopies; ++i) {
        const int row = i * Shape::kRowsAtOnce;
        const bool is_gate = Shape::kGated && row < Shape::kOutputs;
        const int output = row % Shape::kOutputs;
        const bfloat16* from = (is_gate ? gate_ : weight_) + output * k_ + input;
        copy(x + Shape::kXBytes, line_ + row,
             output < outputs_left_ && input < k_ ? from : nullptr);
      }
    }
    ptx::copy_async_commit();
  }

 private:
  // `from` is null if zeros are wanted.
  QUIRE_DEVICE void copy(uint8_t* panel, int row, const bfloat16* from) const {
    ptx::copy_async_16(panel + panel_offset(row, part_, 0), from != nullptr ? from : somewhere_,
                       from != nullptr);
  }

  int64_t k_;
  int line_;
  int part_;
  int64_t outputs_left_;
  const bfloat16* x_[Shape::kXCopies];
  const bfloat16* weight_;
  const bfloat16* gate_ = nullptr;
  const bfloat16* somewhere_;
};

// Begins sums (+)= the warpgroup's rows times the weight rows of a step.
template <typename Shape>
QUIRE_DEVICE void begin_step(int64_t step, int group, typename Shape::Sums& sums) {
  const uint32_t x =
      ptx::shared_address(ptx::shared_memory() + step % Shape::kSlots * Shape::kSlotBytes);
  ptx::begin_products();
#pragma unroll
  for (int k = 0; k < kPanelDims / 16; ++k) {
    ptx::multiply_panels(sums, panel_descriptor(x + group * kGroupRows * kPanelRowBytes + k * 32),
                         panel_descriptor(x + Shape::kXBytes + k * 32), step > 0 || k > 0);
  }
  ptx::commit_products();
}

// Adds up the products of all inputs; a warpgroup without rows copies for the other one. Copies
// stay a slot away from the slot that is read: a slot is filled only after all warpgroups have seen
// its products end, one step before.
template <typename Shape, bool kHasRows>
QUIRE_DEVICE void multiply(const PanelCopier<Shape>& copier, int64_t num_steps, int group,
                           typename Shape::Sums& sums) {
  constexpr int kAhead = Shape::kSlots - 2;
#pragma unroll 1
  for (int step = 0; step < kAhead; ++step) copier.start(step);
#pragma unroll 1
  for (int64_t step = 0; step < num_steps; ++step) {
    ptx::copy_async_wait<kAhead - 1>();
    ptx::publish_shared_writes();
    ptx::sync_threads();
    if constexpr (kHasRows) begin_step<Shape>(step, group, sums);
    copier.start(step + kAhead);
    if constexpr (kHasRows) ptx::wait_products<1>();
  }
  ptx::copy_async_wait<0>();
  if constexpr (kHasRows) {
    ptx::wait_products<0>();
    ptx::pin_registers(sums);
  }
}

// Stores the outputs of the two rows of which the lane has sums.
template <typename Shape>
QUIRE_DEVICE void store_tile(const ExpertProductArgs& args, const ExpertTile& tile, int first_row,
                             int64_t first_output, const typename Shape::Sums& sums) {
  constexpr ExpertStage kStage = Shape::kStage;
  const int lane = ptx::thread_index() % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first_row + lane / 4 + half * 8;
    if (row >= tile.num_rows) continue;
    const int64_t to = tile.first_row + row;
#pragma unroll
    for (int i = 0; i < Shape::kOutputs / 8; ++i) {
      const int64_t output = first_output + i * 8 + lane % 4 * 2;
      if (output >= args.n) continue;
      constexpr int kUp = Shape::kGated ? Shape::kOutputs / 8 : 0;
      float pair[2];
#pragma unroll
      for (int j = 0; j < 2; ++j)
        pair[j] = output_of<kStage>(args, tile, output + j, sums[i][half * 2 + j],
                                    sums[kUp + i][half * 2 + j]);
      if constexpr (kStage == ExpertStage::kOutputs) {
        store(args.outputs + args.pairs[to] * args.n + output, pair);
      } else {
        store(inside_at(args, to, output), pair);
      }
    }
  }
}

template <typename Shape>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(Shape::kThreads, Shape::kBlocksPerSm)
    warpgroup_experts_kernel(const ExpertProductArgs args, const int num_columns) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const ExpertBlock block = expert_block(ptx::block_index(), num_columns);
  if (block.tile >= *args.num_tiles) return;
  const ExpertTile tile = args.tiles[block.tile];
  const int64_t first_output = int64_t{block.column} * Shape::kOutputs;
  const PanelCopier<Shape> copier(args, tile, first_output);
  // The number is taken from a lane, so that the compiler knows it is the same in the whole warp,
  // as descriptors must be.
  const int group = ptx::shuffle(ptx::thread_index() / kWarpgroupThreads, 0);
  const int64_t num_steps = (args.k + kPanelDims - 1) / kPanelDims;
  typename Shape::Sums sums;
  if (group * kGroupRows >= tile.num_rows)
    return multiply<Shape, false>(copier, num_steps, group, sums);
  multiply<Shape, true>(copier, num_steps, group, sums);
  const int warp_row = ptx::thread_index() % kWarpgroupThreads / 32 * 16;
  store_tile<Shape>(args, tile, group * kGroupRows + warp_row, first_output, sums);
}

template <typename Shape>
void launch_shape(Stream& stream, const ExpertProductArgs& args, int64_t max_tiles) {
  const int64_t num_columns = (args.n + Shape::kOutputs - 1) / Shape::kOutputs;
  launch<warpgroup_experts_kernel<Shape>>(stream,
                                          {.num_blocks = num_expert_blocks(max_tiles, num_columns),
                                           .num_threads = Shape::kThreads,
                                           .shared_bytes = Shape::kSharedBytes},
                                          args, static_cast<int>(num_columns));
}

}  // namespace

void many_rows_experts_sm90a(Stream& stream, ExpertStage stage, const ExpertProductArgs& args,
                             int tile_rows, int64_t max_tiles) {
  with_stage(stage, [&]<ExpertStage kStage> {
    if (tile_rows <= kGroupRows)
      return launch_shape<ExpertBlockShape<kStage, 1>>(stream, args, max_tiles);
    launch_shape<ExpertBlockShape<kStage, 2>>(stream, args, max_tiles);
  });
}

}  // namespace quire::cuda
