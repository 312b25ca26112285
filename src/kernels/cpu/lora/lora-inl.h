// Low-rank updates over vectors. The size of blocks of rows and ranks only affects what stays in
// registers, because every sum has accumulators of its own.
#pragma once

#include "kernels/cpu/kernel_tables.h"
#include "kernels/cpu/lora/lora_kernels.h"
#include "kernels/cpu/simd/simd-inl.h"
#include "kernels/cpu/simd/stored_rows-inl.h"

namespace quire {
namespace {

using cpu::LoraExpandArgs;
using cpu::LoraShrinkArgs;
using cpu::Storage;

constexpr int64_t kShrinkRows = 2;
constexpr int64_t kShrinkRanks = 4;
constexpr int64_t kExpandRows = 4;

// Computes h of the kRows rows from args.rows[i] on, and kRanks ranks from j on.
template <Storage kStorage, int kRows, int kRanks>
static void shrink_block(const LoraShrinkArgs& args, int64_t i, int64_t j) {
  constexpr int64_t kBytes = kStorage == cpu::kStoreF32 ? 4 : 2;
  const float* x[kRows];
  for (int r = 0; r < kRows; ++r) x[r] = args.x + args.rows[i + r] * args.x_stride;
  const uint8_t* a = static_cast<const uint8_t*>(args.a) + j * args.k * kBytes;
  F16 sum[kRows][kRanks];
  for (int r = 0; r < kRows; ++r) {
    for (int q = 0; q < kRanks; ++q) sum[r][q] = zero();
  }
  for (int64_t k = 0; k < args.k; k += 16) {
    F16 v[kRows];
    for (int r = 0; r < kRows; ++r) v[r] = load_at(x[r], k, args.k);
    for (int q = 0; q < kRanks; ++q) {
      const F16 w = load_stored(kStorage, a + q * args.k * kBytes, k, args.k);
      for (int r = 0; r < kRows; ++r) sum[r][q] = fma(v[r], w, sum[r][q]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int q = 0; q < kRanks; ++q) {
      args.h[(i + r) * args.h_stride + j + q] = args.scale * reduce_add(sum[r][q]);
    }
  }
}

template <Storage kStorage, int kRows>
static void shrink_rows(const LoraShrinkArgs& args, int64_t i) {
  int64_t j = 0;
  for (; j + kShrinkRanks <= args.num_ranks; j += kShrinkRanks) {
    shrink_block<kStorage, kRows, kShrinkRanks>(args, i, j);
  }
  for (; j < args.num_ranks; ++j) shrink_block<kStorage, kRows, 1>(args, i, j);
}

template <Storage kStorage>
static void shrink_as(const LoraShrinkArgs& args) {
  int64_t i = 0;
  for (; i + kShrinkRows <= args.num_rows; i += kShrinkRows) {
    shrink_rows<kStorage, kShrinkRows>(args, i);
  }
  for (; i < args.num_rows; ++i) shrink_rows<kStorage, 1>(args, i);
}

static void shrink(const LoraShrinkArgs& args) {
  switch (args.storage) {
    case cpu::kStoreBf16:
      return shrink_as<cpu::kStoreBf16>(args);
    case cpu::kStoreF16:
      return shrink_as<cpu::kStoreF16>(args);
    default:
      return shrink_as<cpu::kStoreF32>(args);
  }
}

// Adds the low-rank sums `update` to outputs [n, n + 16) of row i, with bias and gains.
QUIRE_SIMD void add_update(const LoraExpandArgs& args, int64_t i, int64_t n, F16 update) {
  const int64_t end = args.num_outputs;
  float* y = args.y + args.rows[i] * args.y_stride;
  if (args.gain != nullptr) update = mul(update, load_at(args.gain, n, end));
  if (args.bias != nullptr) update = add(update, load_at(args.bias, n, end));
  if (args.base_gain != nullptr) {
    const F16 base = load_at(args.base + i * args.base_stride, n, end);
    update = fma(load_at(args.base_gain, n, end), base, update);
  }
  store_at(y, n, end, add(load_at(y, n, end), update));
}

template <Storage kStorage, int kRows>
static void expand_rows(const LoraExpandArgs& args, int64_t i) {
  constexpr int64_t kBytes = kStorage == cpu::kStoreF32 ? 4 : 2;
  const uint8_t* b = static_cast<const uint8_t*>(args.b);
  for (int64_t n = 0; n < args.num_outputs; n += 16) {
    F16 sum[kRows];
    for (int r = 0; r < kRows; ++r) sum[r] = zero();
    for (int64_t q = 0; q < args.rank; ++q, b += 16 * kBytes) {
      const F16 w = load_stored(kStorage, b, 0, 16);
      for (int r = 0; r < kRows; ++r) {
        sum[r] = fma(set1(args.h[(i + r) * args.h_stride + q]), w, sum[r]);
      }
    }
    for (int r = 0; r < kRows; ++r) add_update(args, i + r, n, sum[r]);
  }
}

template <Storage kStorage>
static void expand_as(const LoraExpandArgs& args) {
  int64_t i = 0;
  for (; i + kExpandRows <= args.num_rows; i += kExpandRows) {
    expand_rows<kStorage, kExpandRows>(args, i);
  }
  for (; i < args.num_rows; ++i) expand_rows<kStorage, 1>(args, i);
}

static void expand(const LoraExpandArgs& args) {
  switch (args.storage) {
    case cpu::kStoreBf16:
      return expand_as<cpu::kStoreBf16>(args);
    case cpu::kStoreF16:
      return expand_as<cpu::kStoreF16>(args);
    default:
      return expand_as<cpu::kStoreF32>(args);
  }
}

// The table that the object file of each instruction set exports.
constexpr cpu::LoraKernels kLoraOverVectors = {.shrink = &shrink, .expand = &expand};

}  // namespace
}  // namespace quire
