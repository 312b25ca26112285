// What the kernels of expert products share. A warp multiplies a piece of 16 weight rows by tiles
// of eight rows of x, 32 inputs at a time: two products of 16 inputs each, in the order of K. Every
// kernel does just that for a row of x, so that its bits are those of the others.
//
// With a gate, a piece is eight rows of the gate and the same eight of `up`, so that the lane with
// the one has the other.
#pragma once

#include <cstdint>

#include "kernels/api/experts.h"
#include "kernels/cuda/activate.h"
#include "kernels/cuda/device_code.h"
#include "kernels/cuda/experts/expert_tiles.h"

namespace quire::cuda {

enum class ExpertStage : uint8_t { kGatedInside, kInside, kOutputs };

// The same matrix or vector of all experts: expert e's begins e * stride elements behind.
template <typename T>
struct Stacked {
  const T* first = nullptr;  // null: there is none
  int64_t stride = 0;
};

// What a stage reads and writes beside the experts' matrices.
struct ExpertRowsArgs {
  const bfloat16* x = nullptr;  // rows of K; of kOutputs: as those of `inside`, else per token
  int32_t per_token = 1;        // pairs
  Stacked<float> gate_bias;
  Stacked<float> bias;
  int64_t n = 0;
  int64_t k = 0;  // both multiples of 8
  ExpertActivation activation;
  const int32_t* num_tiles = nullptr;
  const ExpertTile* tiles = nullptr;
  const int32_t* pairs = nullptr;  // of each row
  bfloat16* inside = nullptr;      // [rows, N], rows inside_stride elements apart
  int64_t inside_stride = 0;
  // Rows of `inside`, and of what kOutputs reads, are those of pairs, which several ranks know by the
  // same numbers; else those of tiles.
  bool inside_by_pair = false;
  float* outputs = nullptr;  // [pairs, N]
};

struct ExpertProductArgs : ExpertRowsArgs {
  Stacked<bfloat16> gate;    // [N, K] each, of kGatedInside
  Stacked<bfloat16> weight;  // [N, K] each
};

inline constexpr int kChunkInputs = 32;
inline constexpr int kChunkBytes = kChunkInputs * 2;  // of a row, in four parts of 16 bytes

// Where a part lies in shared memory. Parts are exchanged by the row, so that what load_matrices()
// reads, a part of eight rows, comes from banks of its own.
QUIRE_HOST_DEVICE constexpr int part_offset(int row, int part) {
  return row * kChunkBytes + (part ^ (row / 2 & 3)) * 16;
}

using WeightChunk = uint32_t[2][4];  // operands of the two products
using InputChunk = uint32_t[4];

// Reads the chunk of 16 weight rows, and of eight rows of x; all lanes of a warp take part.
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

// Returns the first input of row `row` (of 16) of a piece, null behind the last output.
template <ExpertStage kStage>
QUIRE_DEVICE const bfloat16* weight_row(const ExpertProductArgs& args, int expert, int64_t piece,
                                        int row) {
  constexpr bool kGated = kStage == ExpertStage::kGatedInside;
  const int64_t output = piece * piece_outputs(kStage) + (kGated ? row % 8 : row);
  if (output >= args.n) return nullptr;
  const Stacked<bfloat16>& weights = kGated && row < 8 ? args.gate : args.weight;
  return weights.first + expert * weights.stride + output * args.k;
}

// Returns the inputs of a row of all tiles.
template <ExpertStage kStage>
QUIRE_DEVICE const bfloat16* input_row(const ExpertRowsArgs& args, int64_t row) {
  if constexpr (kStage == ExpertStage::kOutputs)
    return args.x + (args.inside_by_pair ? int64_t{args.pairs[row]} : row) * args.k;
  return args.x + int64_t{args.pairs[row] / args.per_token} * args.k;
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

// Returns an output of a tile's expert from `sum`, and that of the gate where there is one.
template <ExpertStage kStage>
QUIRE_DEVICE float output_of(const ExpertRowsArgs& args, const ExpertTile& tile, int64_t output,
                             float gate, float sum) {
  sum = biased(sum, args.bias, tile.expert, output);
  if constexpr (kStage == ExpertStage::kOutputs) return sum;
  if constexpr (kStage == ExpertStage::kInside) return activate(args.activation.activation, sum);
  gate = biased(gate, args.gate_bias, tile.expert, output);
  return inside_of(args.activation, gate, sum);
}

// Returns where the inside of a row of all tiles lies.
QUIRE_DEVICE bfloat16* inside_at(const ExpertRowsArgs& args, int64_t row, int64_t output) {
  const int64_t inside_row = args.inside_by_pair ? int64_t{args.pairs[row]} : row;
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
    args.outputs[args.pairs[to] * args.n + output] = result;
  } else {
    *inside_at(args, to, output) = narrow<bfloat16>(result);
  }
}

// Tiles of 8 or 16 rows straight from memory to registers, for decoding, which reading the weights
// bounds; of up to 64 or 128 through shared memory. `max_tiles`: as many blocks are started for.
void few_rows_experts(Stream& stream, ExpertStage stage, const ExpertProductArgs& args,
                      int tile_rows, int64_t max_tiles);
void many_rows_experts(Stream& stream, ExpertStage stage, const ExpertProductArgs& args,
                       int tile_rows, int64_t max_tiles);
// The same as many_rows_experts() by warpgroup products, on Hopper alone.
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
