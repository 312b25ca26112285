// The code that all kernels for quantized weights share: how finished sums are stored, and how
// codes are prefetched.
#pragma once

#include "kernels/cpu/quant/quant_codes-inl.h"
#include "kernels/cpu/quant/quant_tables.h"
#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

using cpu::CodeKind;
using cpu::CodeValues;
using cpu::kQuantChunk;
using cpu::kQuantHalf;
using cpu::kQuantPanel;
using cpu::kQuantSpan;
using cpu::kQuantStrip;
using cpu::kQuantStrips;
using cpu::QuantLayout;
using cpu::QuantPanelsArgs;

QUIRE_SIMD constexpr int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }

// The values of one pair of k of a strip.
constexpr int64_t kPairValues = 2 * kQuantStrip;

// How far ahead of the loads codes are prefetched, which are read in pieces of BYTES: first into
// the second-level cache, because the first level takes too few misses at a time for this
// bandwidth, and later into the first level, where lines arrive even if the second was too busy to
// take them. The numbers were measured in decode for codes of 4, 6 and 8 bits. The distance is a
// matter of time, and codes of more bits take less time per byte.
template <int64_t BYTES>
constexpr int64_t kCodesAheadFar = min_of(16 * BYTES, 12288);
template <int64_t BYTES>
constexpr int64_t kCodesAheadNear = min_of(8 * BYTES, BYTES < 1024 ? 6144 : 4096);
struct CodeLines {
  const uint8_t* far;
  const uint8_t* near;
};
QUIRE_SIMD void prefetch_codes(const CodeLines& lines, int line) {
  prefetch_l2(lines.far + 64 * line);
  prefetch(lines.near + 64 * line);
}

struct Output {
  float* y;
  int64_t y_stride;
  int64_t num_columns;  // columns that exist from y on
  const float* bias;
  bool accumulate;

  QUIRE_SIMD_MEMBER void finish(int64_t row, int64_t column, F16 sum) const {
    const int64_t left = num_columns - column;
    if (left <= 0) return;
    const int64_t n = left < kQuantStrip ? left : kQuantStrip;
    float* to = y + row * y_stride + column;
    if (n == kQuantStrip) {
      if (bias != nullptr) sum = add(sum, load(bias + column));
      if (accumulate) sum = add(load(to), sum);
      store(to, sum);
    } else {
      if (bias != nullptr) sum = add(sum, load_n(bias + column, n));
      if (accumulate) sum = add(load_n(to, n), sum);
      store_n(to, sum, n);
    }
  }
};

QUIRE_SIMD Output output_at(const QuantPanelsArgs& args, int64_t row, int64_t column) {
  return {.y = args.y + row * args.y_stride + column,
          .y_stride = args.y_stride,
          .num_columns = args.num_columns - column,
          .bias = args.bias == nullptr ? nullptr : args.bias + column,
          .accumulate = args.accumulate};
}

// Returns the bytes of a chunk of a panel.
template <CodeKind KIND>
constexpr int64_t chunk_bytes() {
  constexpr int kBits[cpu::kNumCodeKinds] = {2, 3, 4, 5, 6, 8, 4, 8};
  return kQuantStrips * 64 * kBits[KIND];
}

// Finds the codes to prefetch: those of a panel, and after its last ones the next panel's first.
struct CodePrefetch {
  const uint8_t* at;
  const uint8_t* end;
  int64_t to_next_panel;

  QUIRE_SIMD_MEMBER CodePrefetch(const QuantLayout& layout, const uint8_t* panel)
      : at(panel),
        end(panel + layout.scales_at),
        to_next_panel(layout.panel_bytes - layout.scales_at) {}
  // Returns the lines to prefetch during the next BYTES.
  template <int64_t BYTES>
  QUIRE_SIMD_MEMBER CodeLines take() {
    const uint8_t* far = at + kCodesAheadFar<BYTES>;
    const uint8_t* near = at + kCodesAheadNear<BYTES>;
    at += BYTES;
    return {far < end ? far : far + to_next_panel, near < end ? near : near + to_next_panel};
  }
  template <int64_t BYTES>
  QUIRE_SIMD_MEMBER void advance() {
    const uint8_t* far = take<BYTES>().far;
#pragma GCC unroll 32
    for (int64_t line = 0; line < BYTES; line += 64) prefetch_l2(far + line);
  }
};

}  // namespace
}  // namespace quire
