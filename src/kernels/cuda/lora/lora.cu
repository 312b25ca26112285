// Low-rank updates of rows whose adapters the device knows: A x by blocks of a few ranks, B of it by
// a thread per output. A block has a few rows; where these have one adapter, as chunks of prompts
// do, what is read of it serves them all. How rows are shared out changes no bit: a row's sums go over K
// and over the ranks in an order that depends on these alone (L4).
//
// Slots and parts lie there since before the step, and are read before the previous kernel has
// ended. Every block waits for that kernel, also one that has nothing to do: whoever waits for this
// one takes it that all before it has ended too.
#include <type_traits>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/types.h"

namespace quire::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kRanks = 4;  // of a block that shrinks
constexpr int kVector = static_cast<int>(kLoraVector);
constexpr int kStep = kThreads * kVector;  // inputs that a block reads at once
using Bf16Vector = Elements<kVector, bfloat16>;

// The rows of a block; slot -1: it has no such row, or one without an adapter.
template <int kRows>
struct RowTile {
  int32_t rows[kRows];
  int32_t slots[kRows];

  // The slot of row `i`, when it is the first of the tile that has it; -1: nothing to do.
  QUIRE_DEVICE int32_t new_slot(int i) const {
    int32_t slot = slots[i];
#pragma unroll
    for (int j = 0; j < kRows; ++j)
      if (j < i && slots[j] == slot) slot = -1;
    return slot;
  }
};

template <int kRows>
QUIRE_DEVICE RowTile<kRows> tile_of(const LoraSlotsParams& p, int64_t tile) {
  RowTile<kRows> of;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int64_t at = tile * kRows + i;
    int32_t row = at < p.num_rows ? static_cast<int32_t>(at) : -1;
    if (row >= 0 && p.order != nullptr) row = p.order[at];
    of.rows[i] = row;
    of.slots[i] = row < 0 ? -1 : p.slots[p.tokens != nullptr ? p.tokens[row] : row];
  }
  return of;
}

struct Inputs {
  const bfloat16* x;
  int64_t stride;
  int64_t k;
  bool by_vectors;  // 16 bytes at once
};

// Eight inputs of a row from number `first` on, zeros behind the last.
QUIRE_DEVICE void load_inputs(const Inputs& in, int64_t row, int64_t first, float (&to)[kVector]) {
  const bfloat16* const from = in.x + row * in.stride + first;
  if (in.by_vectors && first + kVector <= in.k) return load<kVector>(from, to);
#pragma unroll
  for (int i = 0; i < kVector; ++i) to[i] = first + i < in.k ? widen(from[i]) : 0.0f;
}

// A block: kRanks ranks of one part, for the rows of a tile.
template <int kRows>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 2)
    shrink_kernel(const LoraSlotsParams p, const Inputs in, const int num_groups) {
  ptx::let_next_kernel_start();  // the product, which fetches its weights meanwhile
  auto* scratch = reinterpret_cast<float*>(ptx::shared_memory());  // [warp][row][rank]
  const int thread = ptx::thread_index();
  const int64_t group = ptx::block_index() % num_groups;
  const int64_t index = ptx::block_index() / num_groups % p.num_parts;
  const RowTile<kRows> tile = tile_of<kRows>(p, ptx::block_index() / num_groups / p.num_parts);
  const int64_t first_rank = group * kRanks;
  bool has_waited = false;
#pragma unroll 1
  for (int first_row = 0; first_row < kRows; ++first_row) {
    const int32_t slot = tile.new_slot(first_row);
    if (slot < 0) continue;
    const LoraPart part = p.parts[slot * p.slot_stride + index];
    if (part.num_outputs == 0 || first_rank >= padded_lora_row(part.rank)) continue;
    const int64_t stride = padded_lora_row(in.k);
    const auto* const a = static_cast<const bfloat16*>(part.a) + first_rank * stride;
    float sums[kRows][kRanks] = {};
    for (int64_t k = int64_t{thread} * kVector; k < in.k; k += kStep) {
      Bf16Vector rows_of_a[kRanks] = {};
#pragma unroll
      for (int r = 0; r < kRanks; ++r) {
        if (first_rank + r < part.rank)
          rows_of_a[r] = *reinterpret_cast<const Bf16Vector*>(a + r * stride + k);
      }
      if (!has_waited) ptx::wait_for_previous_kernel();
      has_waited = true;
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        if (tile.slots[i] != slot) continue;
        float x[kVector];
        load_inputs(in, tile.rows[i], k, x);
#pragma unroll
        for (int r = 0; r < kRanks; ++r) {
#pragma unroll
          for (int e = 0; e < kVector; ++e)
            sums[i][r] = ptx::multiply_add(widen(rows_of_a[r].at[e]), x[e], sums[i][r]);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int r = 0; r < kRanks; ++r) {
        const float sum = warp_sum(sums[i][r]);
        if (thread % 32 == 0) scratch[(thread / 32 * kRows + i) * kRanks + r] = sum;
      }
    }
    ptx::sync_threads();
    if (thread < kRows * kRanks && tile.slots[thread / kRanks] == slot) {
      float sum = scratch[thread];
      for (int warp = 1; warp < kWarps; ++warp)
        sum = ptx::add(sum, scratch[warp * kRows * kRanks + thread]);
      const int64_t at = (int64_t{tile.rows[thread / kRanks]} * p.num_parts + index) * p.max_rank;
      p.workspace[at + first_rank + thread % kRanks] = ptx::multiply(part.scale, sum);
    }
    ptx::sync_threads();
  }
  if (!has_waited) ptx::wait_for_previous_kernel();
}

// The part that has output `n` of the matrix, by number; -1: none, or it is not to be added now.
QUIRE_DEVICE int part_with(const LoraSlotsParams& p, const LoraPart* parts, int64_t n) {
  int found = -1;
  for (int i = 0; i < p.num_parts; ++i) {
    const LoraPart& part = parts[i];
    const bool has_it = n >= part.first_output && n < part.first_output + part.num_outputs;
    if (has_it && (part.base_gain != nullptr) == (p.base != nullptr)) found = i;
  }
  return found;
}

// y += what an output's update comes to.
template <typename Y>
QUIRE_DEVICE void add_update(const LoraSlotsParams& p, const LoraPart& part, int64_t row, int64_t n,
                             float update) {
  const int64_t at = n - part.first_output;
  if (part.gain != nullptr) update = ptx::multiply(part.gain[at], update);
  if (part.bias != nullptr) update = ptx::add(update, part.bias[at]);
  if (part.base_gain != nullptr)
    update = ptx::multiply_add(part.base_gain[at], p.base[row * p.base_stride + n], update);
  Y& y = static_cast<Y*>(p.y.data())[row * p.y_stride + n];
  y = narrow<Y>(ptx::add(widen(y), update));
}

// A thread: one output of the rows of a tile.
template <typename Y, int kRows>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 4)
    expand_kernel(const LoraSlotsParams p, const int num_cuts) {
  ptx::let_next_kernel_start();  // which waits for this one before it reads anything but weights
  const RowTile<kRows> tile = tile_of<kRows>(p, ptx::block_index() / num_cuts);
  const int64_t n = int64_t{ptx::block_index() % num_cuts} * kThreads + ptx::thread_index();
  bool has_waited = false;
  const auto wait = [&] {
    if (has_waited) return;
    ptx::wait_for_previous_kernel();
    has_waited = true;
  };
#pragma unroll 1
  for (int first_row = 0; first_row < kRows; ++first_row) {
    const int32_t slot = tile.new_slot(first_row);
    if (slot < 0) continue;
    const LoraPart* const parts = p.parts + slot * p.slot_stride;
    const int index = n < p.num_outputs ? part_with(p, parts, n) : -1;
    if (index < 0) continue;
    const LoraPart part = parts[index];
    const int64_t stride = padded_lora_row(part.rank);
    const auto* const b = static_cast<const bfloat16*>(part.b) + (n - part.first_output) * stride;
    float sums[kRows] = {};
    for (int64_t r = 0; r < stride; r += kVector) {
      const auto row_of_b = *reinterpret_cast<const Bf16Vector*>(b + r);
      wait();
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        if (tile.slots[i] != slot) continue;
        const float* const from =
            p.workspace + (int64_t{tile.rows[i]} * p.num_parts + index) * p.max_rank + r;
        float shrunk[kVector];
        load<kVector>(from, shrunk);
#pragma unroll
        for (int e = 0; e < kVector; ++e)
          sums[i] = ptx::multiply_add(widen(row_of_b.at[e]), shrunk[e], sums[i]);
      }
    }
    wait();
#pragma unroll
    for (int i = 0; i < kRows; ++i)
      if (tile.slots[i] == slot) add_update<Y>(p, part, tile.rows[i], n, sums[i]);
  }
  wait();
}

// As many rows per block as keep the GPU busy: how many does not change the bits of any.
template <typename Launch>
void with_rows_per_block(int64_t num_rows, const Launch& launch_rows) {
  if (num_rows <= 8) return launch_rows(std::integral_constant<int, 1>());
  if (num_rows <= 128) return launch_rows(std::integral_constant<int, 4>());
  launch_rows(std::integral_constant<int, 8>());
}

void check(const char* op, const LoraSlotsParams& p) {
  QUIRE_CHECK(p.x.dtype() == DType::kBF16, "[{}] a GPU wants bf16 inputs, got {}", op,
              to_string(p.x.dtype()));
  QUIRE_CHECK(p.max_rank % kLoraVector == 0, "[{}] ranks of at most {}", op, p.max_rank);
}

}  // namespace

void shrink_lora(Stream& stream, const LoraSlotsParams& p) {
  check("shrink_lora", p);
  if (p.num_rows == 0) return;
  const Inputs in{.x = static_cast<const bfloat16*>(p.x.data()),
                  .stride = p.x_stride,
                  .k = p.k,
                  .by_vectors = reinterpret_cast<uintptr_t>(p.x.data()) % 16 == 0 &&
                                p.x_stride % kLoraVector == 0};
  with_rows_per_block(p.num_rows, [&](auto rows) {
    constexpr int kRows = decltype(rows)::value;
    const int64_t num_groups = p.max_rank / kRanks;
    launch<shrink_kernel<kRows>>(
        stream,
        {.num_blocks = (p.num_rows + kRows - 1) / kRows * p.num_parts * num_groups,
         .num_threads = kThreads,
         .shared_bytes = kWarps * kRows * kRanks * int64_t{sizeof(float)}},
        p, in, static_cast<int>(num_groups));
  });
}

void expand_lora(Stream& stream, const LoraSlotsParams& p) {
  check("expand_lora", p);
  if (p.num_rows == 0) return;
  const int64_t num_cuts = (p.num_outputs + kThreads - 1) / kThreads;
  with_float_type(p.y.dtype(), [&](auto y) {
    with_rows_per_block(p.num_rows, [&](auto rows) {
      constexpr int kRows = decltype(rows)::value;
      launch<expand_kernel<decltype(y), kRows>>(
          stream,
          {.num_blocks = (p.num_rows + kRows - 1) / kRows * num_cuts, .num_threads = kThreads}, p,
          static_cast<int>(num_cuts));
    });
  });
}

}  // namespace quire::cuda
