// Low-rank updates of rows whose adapters only the device knows: A x is computed by blocks with a
// few ranks each, and B of it by a thread per output. A block has a few rows; if they have the same
// adapter, as in a chunk of a prompt, what it reads of the adapter serves all of them. The division
// of rows among blocks changes no bit: a row's sums go over K and over the ranks in an order that
// depends on these alone (L4).
//
// Slots and parts were written before the step, and are read while the previous kernel still runs.
// Every block waits for that kernel, even if it has nothing to do, since kernels that wait for this
// one assume that all earlier ones have ended too.
#include <type_traits>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/types.h"

namespace quire::cuda {
namespace {

constexpr int kShrinkThreads = 256;
constexpr int kShrinkWarps = kShrinkThreads / 32;
constexpr int kExpandThreads = 128;
constexpr int kVector = static_cast<int>(kLoraVector);
constexpr int kStep = kShrinkThreads * kVector;  // inputs that a block reads at once
using Bf16Vector = Elements<kVector, bfloat16>;

// Returns row `i` of a tile of rows; -1: there is none.
template <int kRows>
QUIRE_DEVICE int32_t row_of(const LoraSlotsParams& p, int64_t tile, int i) {
  const int64_t at = tile * kRows + i;
  if (at >= p.num_rows) return -1;
  return p.order != nullptr ? p.order[at] : static_cast<int32_t>(at);
}

// The rows of a block, which are processed adapter by adapter. Every index is a constant, so that
// the arrays stay in registers.
template <int kRows>
struct RowTile {
  int32_t rows[kRows];
  int32_t slots[kRows];  // -1: no such row, or no adapter
  uint32_t pending = 0;  // bit i: row i's adapter has not been current yet
  uint32_t current = 0;  // bit i: row i has the current adapter
  int32_t slot = -1;     // of the current adapter

  QUIRE_DEVICE RowTile(const LoraSlotsParams& p, int64_t tile) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) rows[i] = row_of<kRows>(p, tile, i);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      slots[i] = rows[i] < 0 ? -1 : p.slots[p.tokens != nullptr ? p.tokens[rows[i]] : rows[i]];
      if (slots[i] >= 0) pending |= 1u << i;
    }
  }
  // Goes to the next adapter. Returns false if there is none.
  QUIRE_DEVICE bool next() {
    slot = -1;
    current = 0;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      if ((pending >> i & 1u) == 0) continue;
      if (slot < 0) slot = slots[i];
      if (slots[i] == slot) current |= 1u << i;
    }
    pending &= ~current;
    return slot >= 0;
  }
  QUIRE_DEVICE bool is_current(int i) const { return (current >> i & 1u) != 0; }
};

struct Inputs {
  const bfloat16* x;
  int64_t stride;
  int64_t k;
  bool by_vectors;  // in pieces of 16 bytes
};

// Loads eight inputs of a row from number `first` on, with zeros past the last.
QUIRE_DEVICE void load_inputs(const Inputs& in, int64_t row, int64_t first, float (&to)[kVector]) {
  const bfloat16* const from = in.x + row * in.stride + first;
  if (in.by_vectors && first + kVector <= in.k) return load<kVector>(from, to);
#pragma unroll
  for (int i = 0; i < kVector; ++i) to[i] = first + i < in.k ? widen(from[i]) : 0.0f;
}

// A block computes kRanks ranks of one part, for the rows of a tile. It starts loading kAhead steps
// of A before x can be read.
template <int kRows, int kRanks, int kAhead>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kShrinkThreads, 1)
    shrink_kernel(const LoraSlotsParams p, const Inputs in, const int num_groups) {
  ptx::let_next_kernel_start();  // the product, which fetches its weights meanwhile
  auto* scratch = reinterpret_cast<float*>(ptx::shared_memory());  // [warp][row][rank]
  const int thread = ptx::thread_index();
  const int64_t first_rank = int64_t{ptx::block_index() % num_groups} * kRanks;
  const int64_t index = ptx::block_index() / num_groups % p.num_parts;
  const int64_t number = ptx::block_index() / num_groups / p.num_parts;
  RowTile<kRows> tile(p, number);
  bool has_waited = false;
  while (tile.next()) {
    const LoraPart& part = p.parts[tile.slot * p.slot_stride + index];
    const int64_t rank = part.num_outputs == 0 ? 0 : part.rank;
    if (first_rank >= padded_lora_row(rank)) continue;
    const int64_t stride = padded_lora_row(in.k);
    const auto* const a = static_cast<const bfloat16*>(part.a) + first_rank * stride;
    const float scale = part.scale;
    float sums[kRows][kRanks] = {};
    for (int64_t begin = int64_t{thread} * kVector; begin < in.k; begin += kAhead * kStep) {
      Bf16Vector ahead[kAhead][kRanks] = {};
#pragma unroll
      for (int step = 0; step < kAhead; ++step) {
        const int64_t k = begin + step * kStep;
#pragma unroll
        for (int r = 0; r < kRanks; ++r) {
          if (k < in.k && first_rank + r < rank)
            ahead[step][r] = *reinterpret_cast<const Bf16Vector*>(a + r * stride + k);
        }
      }
      if (!has_waited) ptx::wait_for_previous_kernel();
      has_waited = true;
#pragma unroll
      for (int step = 0; step < kAhead; ++step) {
        const int64_t k = begin + step * kStep;
        if (k >= in.k) continue;
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          if (!tile.is_current(i)) continue;
          float x[kVector];
          load_inputs(in, tile.rows[i], k, x);
#pragma unroll
          for (int r = 0; r < kRanks; ++r) {
#pragma unroll
            for (int e = 0; e < kVector; ++e)
              sums[i][r] = ptx::multiply_add(widen(ahead[step][r].at[e]), x[e], sums[i][r]);
          }
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
    if (thread < kRows * kRanks && tile.is_current(thread / kRanks)) {
      float sum = scratch[thread];
      for (int warp = 1; warp < kShrinkWarps; ++warp)
        sum = ptx::add(sum, scratch[warp * kRows * kRanks + thread]);
      const int64_t row = row_of<kRows>(p, number, thread / kRanks);
      const int64_t at = (row * p.num_parts + index) * p.max_rank;
      p.workspace[at + first_rank + thread % kRanks] = ptx::multiply(scale, sum);
    }
    ptx::sync_threads();
  }
  if (!has_waited) ptx::wait_for_previous_kernel();
}

// Returns the number of the part that has output `n` of the matrix; -1: no part has it, or it must
// not be added in this call.
QUIRE_DEVICE int part_with(const LoraSlotsParams& p, const LoraPart* parts, int64_t n) {
  int found = -1;
#pragma unroll 4
  for (int i = 0; i < p.num_parts; ++i) {
    const LoraPart& part = parts[i];
    const bool has_it = n >= part.first_output && n < part.first_output + part.num_outputs;
    const bool is_wanted = (part.base_gain != nullptr) == (p.base != nullptr);
    if (has_it && is_wanted) found = i;
  }
  return found;
}

// Adds the update of an output to y.
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

// A thread computes one output of the rows of a tile.
template <typename Y, int kRows>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kExpandThreads, 4)
    expand_kernel(const LoraSlotsParams p, const int num_cuts) {
  ptx::let_next_kernel_start();  // which reads only weights before this kernel has ended
  RowTile<kRows> tile(p, ptx::block_index() / num_cuts);
  const int64_t n = int64_t{ptx::block_index() % num_cuts} * kExpandThreads + ptx::thread_index();
  bool has_waited = false;
  const auto wait = [&] {
    if (!has_waited) ptx::wait_for_previous_kernel();
    has_waited = true;
  };
  while (tile.next()) {
    const LoraPart* const parts = p.parts + tile.slot * p.slot_stride;
    const int index = n < p.num_outputs ? part_with(p, parts, n) : -1;
    if (index < 0) continue;
    const LoraPart part = parts[index];
    const int64_t stride = padded_lora_row(part.rank);
    const auto* const b = static_cast<const bfloat16*>(part.b) + (n - part.first_output) * stride;
    float sums[kRows] = {};
    for (int64_t r = 0; r < stride; r += kVector) {
      float row_of_b[kVector];
      load<kVector>(b + r, row_of_b);
      wait();
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        if (!tile.is_current(i)) continue;
        const float* const from =
            p.workspace + (int64_t{tile.rows[i]} * p.num_parts + index) * p.max_rank + r;
        float shrunk[kVector];
        load<kVector>(from, shrunk);
#pragma unroll
        for (int e = 0; e < kVector; ++e)
          sums[i] = ptx::multiply_add(row_of_b[e], shrunk[e], sums[i]);
      }
    }
    wait();
#pragma unroll
    for (int i = 0; i < kRows; ++i)
      if (tile.is_current(i)) add_update<Y>(p, part, tile.rows[i], n, sums[i]);
  }
  wait();
}

// Chooses enough rows per block to keep the GPU busy; their number changes no bits.
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
    // With few rows there are SMs for more blocks, which then finish sooner.
    constexpr int kRanks = kRows <= 4 ? 2 : 4;
    constexpr int kAhead = kRows == 1 ? 8 : kRows == 4 ? 4 : 1;
    const int64_t num_groups = p.max_rank / kRanks;
    launch<shrink_kernel<kRows, kRanks, kAhead>>(
        stream,
        {.num_blocks = (p.num_rows + kRows - 1) / kRows * p.num_parts * num_groups,
         .num_threads = kShrinkThreads,
         .shared_bytes = kShrinkWarps * kRows * kRanks * int64_t{sizeof(float)}},
        p, in, static_cast<int>(num_groups));
  });
}

void expand_lora(Stream& stream, const LoraSlotsParams& p) {
  check("expand_lora", p);
  if (p.num_rows == 0) return;
  const int64_t num_cuts = (p.num_outputs + kExpandThreads - 1) / kExpandThreads;
  with_float_type(p.y.dtype(), [&](auto y) {
    with_rows_per_block(p.num_rows, [&](auto rows) {
      constexpr int kRows = decltype(rows)::value;
      launch<expand_kernel<decltype(y), kRows>>(
          stream,
          {.num_blocks = (p.num_rows + kRows - 1) / kRows * num_cuts,
           .num_threads = kExpandThreads},
          p, static_cast<int>(num_cuts));
    });
  });
}

}  // namespace quire::cuda
