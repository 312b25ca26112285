// Shared by the kernels of expert products. A warp multiplies a piece of 16 weight rows by tiles of
// eight rows of x, 32 inputs at a time: two products of 16 inputs each, in the order of K. All
// kernels do the same for a row of x, so a row's bits are the same in all of them.
//
// With a gate, a piece is eight rows of the gate and the same eight rows of `up`, so that the lane
// that has one also has the other.
#pragma once

#include <cstdint>

#include "kernels/api/experts.h"
#include "kernels/cuda/activate.h"
#include "kernels/cuda/device_code.h"
#include "kernels/cuda/experts/expert_tiles.h"

namespace quire::cuda {

enum class ExpertStage : uint8_t { kGatedInside, kInside, kOutputs };

// The same matrix or vector of all experts. That of expert e begins at first + e * stride.
template <typename T>
struct Stacked {
  const T* first = nullptr;  // null: the experts have none
  int64_t stride = 0;
};

// What a stage reads and writes, apart from the experts' matrices.
struct ExpertRowsArgs {
  const bfloat16* x = nullptr;  // [rows, K]; for kOutputs rows are those of `inside`, else tokens
  int32_t per_token = 1;        // pairs
  Stacked<float> gate_bias;
  Stacked<float> bias;
  int64_t n = 0;
  int64_t k = 0;  // n and k are multiples of 8
  ExpertActivation activation;
  // For sorted pairs. Null for a single token, each of whose pairs is a tile of one row.
  const int32_t* num_tiles = nullptr;
  const ExpertTile* tiles = nullptr;
  const int32_t* pairs = nullptr;       // by row
  const int32_t* expert_ids = nullptr;  // by pair
  bfloat16* inside = nullptr;           // [rows, N], rows inside_stride elements apart
  int64_t inside_stride = 0;
  // Whether rows of `inside`, and of the input of kOutputs, are numbered by pair, which is the same
  // on several ranks; else they are numbered by row of all tiles.
  bool inside_by_pair = false;
  float* outputs = nullptr;  // [pairs, N]
};

struct ExpertProductArgs : ExpertRowsArgs {
  Stacked<bfloat16> gate;    // [N, K] each, for kGatedInside
  Stacked<bfloat16> weight;  // [N, K] each
};

inline constexpr int kChunkInputs = 32;
inline constexpr int kChunkBytes = kChunkInputs * 2;  // of a row, in four parts of 16 bytes

// Returns the offset of a part in shared memory. Parts are permuted by the row's number, so that
// the same part of eight rows, which load_matrices() reads, comes from different banks.
QUIRE_HOST_DEVICE constexpr int part_offset(int row, int part) {
  return row * kChunkBytes + (part ^ (row / 2 & 3)) * 16;
}

using WeightChunk = uint32_t[2][4];  // operands of the two products
using InputChunk = uint32_t[4];

// Read a chunk of 16 weight rows, and of eight rows of x. All lanes of a warp must call them.
QUIRE_DEVICE void read_weights(const uint8_t* rows, WeightChunk& to) {
  const int lane = ptx::thread_index() % 32;
#pragma unroll
  for (int i = 0; i < 2; ++i)
    ptx::load_matrices(to[i], rows + part_offset(lane % 16, 2 * i + lane / 16));
}
QUIRE_DEVICE void read_inputs(const uint8_t* rows, InputChunk& to) {
  const int lane = ptx::thread_index() % 32;
  ptx::load_matrices(to, rows + part_offset(lane % 8, lane / 8));
}

constexpr int piece_outputs(ExpertStage stage) {
  return stage == ExpertStage::kGatedInside ? 8 : 16;
}

// Returns the first input of row `row` (of 16) of a piece, or null past the last output.
template <ExpertStage kStage>
QUIRE_DEVICE const bfloat16* weight_row(const ExpertProductArgs& args, int expert, int64_t piece,
                                        int row) {
  constexpr bool kGated = kStage == ExpertStage::kGatedInside;
  const int64_t output = piece * piece_outputs(kStage) + (kGated ? row % 8 : row);
  if (output >= args.n) return nullptr;
  const Stacked<bfloat16>& weights = kGated && row < 8 ? args.gate : args.weight;
  return weights.first + expert * weights.stride + output * args.k;
}

QUIRE_DEVICE int num_tiles_of(const ExpertRowsArgs& args) {
  return args.num_tiles != nullptr ? *args.num_tiles : args.per_token;
}
QUIRE_DEVICE ExpertTile tile_of(const ExpertRowsArgs& args, int i) {
  return args.tiles != nullptr ? args.tiles[i] : ExpertTile{args.expert_ids[i], i, 1};
}
// Returns the pair of row number `row` among those of all tiles.
QUIRE_DEVICE int pair_of(const ExpertRowsArgs& args, int64_t row) {
  return args.pairs != nullptr ? args.pairs[row] : static_cast<int>(row);
}

// Returns the inputs of row number `row` among those of all tiles.
template <ExpertStage kStage>
QUIRE_DEVICE const bfloat16* input_row(const ExpertRowsArgs& args, int64_t row) {
  if constexpr (kStage == ExpertStage::kOutputs)
    return args.x + (args.inside_by_pair ? pair_of(args, row) : row) * args.k;
  return args.x + int64_t{pair_of(args, row) / args.per_token} * args.k;
}

// Adds a chunk of a piece times that of eight rows of x.
QUIRE_DEVICE void multiply_chunk(const WeightChunk& weights, const InputChunk& x,
                                 float (&sums)[4]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) ptx::multiply_tiles(sums, weights[i], x[2 * i], x[2 * i + 1]);
}

QUIRE_DEVICE float biased(float sum, const Stacked<float>& bias, int expert, int64_t output) {
  return bias.first != nullptr ? ptx::add(sum, bias.first[expert * bias.stride + output]) : sum;
}

QUIRE_DEVICE float inside_of(const ExpertActivation& how, float gate, float up) {
  if (how.has_clamp) {
    gate = ptx::min(gate, how.limit);
    up = ptx::add(ptx::max(-how.limit, ptx::min(up, how.limit)), 1.0f);
  }
  return ptx::multiply(activate(how.activation, gate), up);
}

// Returns an output of a tile's expert from its sum and, if gated, the gate's sum.
template <ExpertStage kStage>
QUIRE_DEVICE float output_of(const ExpertRowsArgs& args, const ExpertTile& tile, int64_t output,
                             float gate, float sum) {
  sum = biased(sum, args.bias, tile.expert, output);
  if constexpr (kStage == ExpertStage::kOutputs) return sum;
  if constexpr (kStage == ExpertStage::kInside) return activate(args.activation.activation, sum);
  gate = biased(gate, args.gate_bias, tile.expert, output);
  return inside_of(args.activation, gate, sum);
}

// Returns where the inside of row number `row` of all tiles is stored.
QUIRE_DEVICE bfloat16* inside_at(const ExpertRowsArgs& args, int64_t row, int64_t output) {
  const int64_t inside_row = args.inside_by_pair ? pair_of(args, row) : row;
  return args.inside + inside_row * args.inside_stride + output;
}

// Stores one output of a row of a tile.
template <ExpertStage kStage>
QUIRE_DEVICE void store_output(const ExpertRowsArgs& args, const ExpertTile& tile, int row,
                               int64_t output, float gate, float sum) {
  if (row >= tile.num_rows || output >= args.n) return;
  const int64_t to = tile.first_row + row;
  const float result = output_of<kStage>(args, tile, output, gate, sum);
  if constexpr (kStage == ExpertStage::kOutputs) {
    args.outputs[pair_of(args, to) * args.n + output] = result;
  } else {
    *inside_at(args, to, output) = narrow<bfloat16>(result);
  }
}

// few_rows_experts() is for tiles of 8 or 16 rows: it copies inputs straight to registers, and its
// time is that of reading the weights. many_rows_experts() is for tiles of up to 64 or 128 rows,
// through shared memory. Both launch blocks for `max_tiles` tiles.
void few_rows_experts(Stream& stream, ExpertStage stage, const ExpertProductArgs& args,
                      int tile_rows, int64_t max_tiles);
void many_rows_experts(Stream& stream, ExpertStage stage, const ExpertProductArgs& args,
                       int tile_rows, int64_t max_tiles);
// Does the same as many_rows_experts() by warpgroup products, on Hopper only.
void many_rows_experts_sm90a(Stream& stream, ExpertStage stage, const ExpertProductArgs& args,
                             int tile_rows, int64_t max_tiles);

// Calls f with the stage as a constant.
template <typename F>
void with_stage(ExpertStage stage, F&& f) {
  switch (stage) {
    case ExpertStage::kGatedInside:
      return f.template operator()<ExpertStage::kGatedInside>();
    case ExpertStage::kInside:
      return f.template operator()<ExpertStage::kInside>();
    case ExpertStage::kOutputs:
      return f.template operator()<ExpertStage::kOutputs>();
  }
}

}  // namespace quire::cuda
