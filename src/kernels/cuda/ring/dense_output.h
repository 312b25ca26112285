// Processes the finished sums of a tile of dense_linear(): bias, activation, rounding, and stores
// of whole vectors if y's layout allows it.
#pragma once

#include "kernels/cuda/activate.h"
#include "kernels/cuda/hopper_code.h"
#include "kernels/cuda/linear_output.h"

namespace quire::cuda {

struct DenseOutput {
  int64_t num_rows = 0;
  int64_t n = 0;  // outputs of y; a gated weight has twice as many
  const float* bias = nullptr;
  void* y = nullptr;
  int64_t y_stride = 0;
  bool y_is_float = false;
  bool accumulate = false;
  bool by_vectors = false;                    // y is written in pieces of 16 bytes
  Activation activation = Activation::kSilu;  // for gated outputs
};

// Register i of lane j of four lanes becomes register j of lane i.
QUIRE_DEVICE void transpose_quad(uint32_t (&v)[4]) {
#pragma unroll
  for (int bit = 1; bit <= 2; bit *= 2) {
    const bool is_odd = (ptx::thread_index() & bit) != 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if ((i & bit) != 0) continue;
      const uint32_t got = ptx::shuffle_xor(is_odd ? v[i] : v[i + bit], bit);
      (is_odd ? v[i] : v[i + bit]) = got;
    }
  }
}

// Where a lane's part of a row of sums is written. Each of four lanes has two neighbouring outputs
// of every eight.
struct OutputRow {
  int64_t row = 0;
  int64_t first_output = 0;
  int half = 0;  // 0: row lane / 4 of the sums; 1: the row eight below
};

// Stores four tiles of eight outputs from tile `first` on as bf16; each lane stores one tile.
template <int kTiles>
QUIRE_DEVICE void store_vectors(const DenseOutput& args, const OutputRow& at, int first,
                                const float (&sums)[kTiles][4]) {
  const int lane = ptx::thread_index() % 4;
  Elements<4, uint32_t> packed;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    packed.at[i] = ptx::pack_bf16(sums[first + i][2 * at.half], sums[first + i][2 * at.half + 1]);
  }
  transpose_quad(packed.at);
  const int64_t output = at.first_output + (first + lane) * 8;
  if (at.row >= args.num_rows || output >= args.n) return;
  auto* y = static_cast<bfloat16*>(args.y) + at.row * args.y_stride + output;
  *reinterpret_cast<Elements<4, uint32_t>*>(y) = packed;
}

// Stores a lane's two outputs of a tile of eight.
QUIRE_DEVICE void store_pair(const DenseOutput& args, const OutputRow& at, int tile,
                             const float (&pair)[2]) {
  const int64_t output = at.first_output + tile * 8 + ptx::thread_index() % 4 * 2;
  if (!args.by_vectors) {
    store_output(args, at.row, output, pair[0]);
    return store_output(args, at.row, output + 1, pair[1]);
  }
  if (at.row >= args.num_rows || output >= args.n) return;
  const int64_t to = at.row * args.y_stride + output;
  if (!args.y_is_float) return store(static_cast<bfloat16*>(args.y) + to, pair);
  auto* y = static_cast<float*>(args.y) + to;
  if (args.accumulate) return ptx::add_in_memory(y, pair[0], pair[1]);
  store(y, pair);
}

// Stores the first kStored tiles of sums of a row.
template <int kStored, int kTiles>
QUIRE_DEVICE void store_row(const DenseOutput& args, const OutputRow& at,
                            const float (&sums)[kTiles][4]) {
  const bool by_fours = args.by_vectors && !args.y_is_float;
#pragma unroll
  for (int tile = 0; tile < kStored; ++tile) {
    if (by_fours && tile < kStored / 4 * 4) {
      if (tile % 4 == 0) store_vectors(args, at, tile, sums);
      continue;
    }
    const float pair[2] = {sums[tile][2 * at.half], sums[tile][2 * at.half + 1]};
    store_pair(args, at, tile, pair);
  }
}

// Adds `bias` to the lane's two columns of a tile. `output` counts within the half of the weight's
// outputs that `bias` is for.
QUIRE_DEVICE void add_bias(const DenseOutput& args, const float* bias, int64_t output,
                           float (&sums)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (output + i % 2 < args.n) sums[i] = ptx::add(sums[i], bias[output + i % 2]);
}

// Sets `gate` to activation(gate) * up, where both are rounded as if they had been stored in
// between.
template <Activation kKind>
QUIRE_DEVICE void apply_gate(float (&gate)[4], const float (&up)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float activated = activate(kKind, widen(narrow<bfloat16>(gate[i])));
    gate[i] = ptx::multiply(activated, widen(narrow<bfloat16>(up[i])));
  }
}

// Finishes a warp's sums and stores them; `row` is the lane's first row. If gated, the first half
// of the tiles are gates, and the second half the values that they multiply.
template <bool kGated, int kTiles>
QUIRE_DEVICE void finish_tile(const DenseOutput& args, int64_t row, int64_t first_output,
                              float (&sums)[kTiles][4]) {
  constexpr int kStored = kGated ? kTiles / 2 : kTiles;
  if (args.bias != nullptr) {
    const int64_t output = first_output + ptx::thread_index() % 4 * 2;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const float* bias = tile < kStored ? args.bias : args.bias + args.n;
      add_bias(args, bias, output + tile % kStored * 8, sums[tile]);
    }
  }
  if constexpr (kGated) {
#pragma unroll
    for (int tile = 0; tile < kStored; ++tile) {
      if (args.activation == Activation::kSilu) {
        apply_gate<Activation::kSilu>(sums[tile], sums[tile + kStored]);
      } else {
        apply_gate<Activation::kGeluTanh>(sums[tile], sums[tile + kStored]);
      }
    }
  }
  DenseOutput stored = args;
  stored.bias = nullptr;
  store_row<kStored>(stored, {.row = row, .first_output = first_output, .half = 0}, sums);
  store_row<kStored>(stored, {.row = row + 8, .first_output = first_output, .half = 1}, sums);
}

}  // namespace quire::cuda
