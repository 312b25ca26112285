// Multiplies few rows by quantized weights. Codes are decoded and multiplied within registers.
#pragma once

#include "kernels/cpu/quant/quant_codes-inl.h"
#include "kernels/cpu/quant/quant_math-inl.h"
#include "kernels/cpu/quant/quant_panels-inl.h"
#include "kernels/cpu/quant/quant_scales-inl.h"
#include "kernels/cpu/quant/quant_tables.h"
#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

// Adds the products of pairs J … END - 1 of a chunk. END - 8 is the first pair of its half, and x
// points at pair J. It prefetches LINES lines from `ahead` on, a share with each pair, because a
// burst of prefetches would delay itself and the loads. APART keeps the compiler from moving them
// together again, at the price of fewer values in registers.
template <class Math, CodeKind KIND, int J, int END, int LINES, bool APART, int ROWS, int NV>
QUIRE_SIMD void add_pairs(const typename Math::template Codes<KIND>& decoder,
                          const uint8_t* const (&codes)[NV], const float* x, const CodeLines& ahead,
                          Sums<Math, ROWS, NV>& sums) {
  if constexpr (J < END) {
    constexpr int kIndex = J - (END - 8);
    constexpr int kNext = kIndex + Math::kVectorPairs;
#pragma GCC unroll 4
    for (int line = LINES * kIndex / 8; line < LINES * kNext / 8; ++line) {
      prefetch_codes(ahead, line);
    }
    if constexpr (APART) asm volatile("" ::: "memory");
    constexpr int kCount = min_of(NV, Math::template kDecodedStrips<KIND>);
#pragma GCC unroll 4
    for (int first = 0; first < NV; first += kCount) {
      decltype(decoder.template pair<J>(codes[0])) b[kCount];
#pragma GCC unroll 4
      for (int i = 0; i < kCount; ++i) b[i] = decoder.template pair<J>(codes[first + i]);
      Math::template add<ROWS, NV, kCount>(sums.v, first, x, b);
      sums.template settle<kCount>(first);
    }
    add_pairs<Math, KIND, J + Math::kVectorPairs, END, LINES, APART>(
        decoder, codes, x + ROWS * Math::kPairSlots, ahead, sums);
  }
}

// The packed rows of a block, and their outputs.
struct BlockRows {
  const float* x;
  const float* groups;
  Output output;
  bool fetches;  // this block prefetches the codes of the panel, for all blocks
};

template <class Math>
QUIRE_SIMD BlockRows block_rows_at(const QuantPanelsArgs& args, const cpu::QuantRowCut& cut,
                                   int64_t block, int64_t panel) {
  const int64_t row = cut.first_row(block);
  return {.x = args.x + x_offset<Math>(*args.layout, row),
          .groups = args.groups + row * args.layout->num_groups * Math::kGroupSlots,
          .output = output_at(args, row, panel * kQuantPanel),
          .fetches = block == 0};
}

// The most rows for which pairs are kept apart. With more rows that gains no time.
constexpr int kApartRows = 2;

// The most rows for which float16 scales are converted when they are needed.
constexpr int kDirectScaleRows = 4;

// Multiplies ROWS rows by NV strips of a panel, from `first` on. The call for the first strip
// prefetches for all. It is one long function, because with its loops in functions of their own GCC
// 12 keeps fewer sums in registers.
template <class Math, CodeKind KIND, ScaleMode MODE, int ROWS, int NV>
static void fused_tile(const QuantPanelsArgs& args, const uint8_t* panel, int64_t first,
                       const BlockRows& rows) {
  const QuantLayout& layout = *args.layout;
  const ZeroKind zero_kind = MODE == kDirectF16 ? ZeroKind::kNone : layout.spec.zero_kind;
  const typename Math::template Codes<KIND> decoder(*args.values);
  const float* x = rows.x;
  const float* group = rows.groups;
  const bool fetches = rows.fetches && first == 0;
  CodePrefetch ahead(layout, panel);
  ScaleReader<MODE> scales[NV / 2];
  const uint8_t* codes[NV];
#pragma GCC unroll 4
  for (int i = 0; i < NV; ++i) {
    if (i % 2 == 0) scales[i / 2].begin(layout, panel, (first + i) / 2);
    codes[i] = panel + (first + i) * layout.strip_bytes;
  }
  constexpr bool kInRegisters = kTotalsInRegisters<Math, ROWS, NV>;
  alignas(64) float totals[kInRegisters ? 1 : ROWS * kTotalsStride<NV>];
  Sums<Math, ROWS, NV> sums;
  Totals<ROWS, NV, kInRegisters> total;
  if constexpr (!kInRegisters) total.at = totals;
  sums.clear();
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 4
    for (int i = 0; i < NV; ++i) total.set(r, i, zero());
  }
  const int64_t halves_per_group = layout.group_size / 16;
  int64_t groups_left = layout.num_groups;
  for (int64_t k0 = 0; k0 < layout.padded_k; k0 += layout.span) {
    const int64_t num_groups = min_of(groups_left, layout.groups_per_span);
    groups_left -= num_groups;
#pragma GCC unroll 2
    for (int i = 0; i < NV / 2; ++i) scales[i].begin_span(layout, num_groups);
    int64_t halves_left = halves_per_group;
    const auto close = [&]() __attribute__((always_inline)) {
      close_group<Math>(
          zero_kind, [&](int i) { return scales[i / 2].scale(i % 2 * kQuantStrip); },
          [&](int i) { return scales[i / 2].zero_point(i % 2 * kQuantStrip); }, group, sums, total);
      group += Math::kGroupSlots * ROWS;
      halves_left = halves_per_group;
#pragma GCC unroll 2
      for (int i = 0; i < NV / 2; ++i) scales[i].next();
    };
    // With all strips at once this is the only pass, and mostly the only block, so it prefetches.
    constexpr int64_t kHalfBytes = chunk_bytes<KIND>() / 2;
    constexpr int64_t kHalfSlots = 8 / Math::kVectorPairs * ROWS * Math::kPairSlots;
    constexpr int kLines = NV == kQuantStrips ? kHalfBytes / 64 : 0;
    constexpr bool kApart =
        ROWS <= kApartRows && Math::template kPairsApart<KIND, MODE == kDirectF16>;
    const auto fetch_half = [&]() __attribute__((always_inline)) {
      if (kLines == 0 && fetches) ahead.advance<kHalfBytes>();
      return kLines == 0 ? CodeLines{} : ahead.take<kHalfBytes>();
    };
    const int64_t end = min_of(k0 + layout.span, layout.padded_k);
    for (int64_t k = k0; k < end; k += kQuantChunk) {
      CodeLines next = fetch_half();
      add_pairs<Math, KIND, 0, 8, kLines, kApart>(decoder, codes, x, next, sums);
      if (--halves_left == 0) close();
      next = fetch_half();
      add_pairs<Math, KIND, 8, 16, kLines, kApart>(decoder, codes, x + kHalfSlots, next, sums);
      if (--halves_left == 0) close();
      x += 2 * kHalfSlots;
#pragma GCC unroll 4
      for (int i = 0; i < NV; ++i) codes[i] += kQuantStrips * layout.strip_bytes;
    }
    if (halves_left != halves_per_group) close();
  }
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 4
    for (int i = 0; i < NV; ++i) rows.output.finish(r, (first + i) * kQuantStrip, total.get(r, i));
  }
}

template <class Math, CodeKind KIND, ScaleMode MODE, int ROWS>
static void fused_block(const QuantPanelsArgs& args, int64_t num_rows, const uint8_t* panel,
                        const BlockRows& rows) {
  if constexpr (ROWS > 0) {
    if (num_rows != ROWS) {
      return fused_block<Math, KIND, MODE, ROWS - 1>(args, num_rows, panel, rows);
    }
    constexpr int kStripsAtOnce =
        ROWS <= Math::template kQuadRows<KIND, MODE == kDirectF16> ? 4 : 2;
    for (int64_t first = 0; first < kQuantStrips; first += kStripsAtOnce) {
      fused_tile<Math, KIND, ROWS <= kDirectScaleRows ? MODE : kExpanded, ROWS, kStripsAtOnce>(
          args, panel, first, rows);
    }
  }
}

template <class Math, CodeKind KIND, ScaleMode MODE>
static void fused_panels(const QuantPanelsArgs& args) {
  constexpr int64_t kMaxRows = min_of(Math::template kFusedRows<KIND>, Math::kRowBlock);
  const cpu::QuantRowCut cut = cpu::quant_row_cut(args.m, args.row_block);
  for (int64_t p = 0; p < args.num_panels; ++p) {
    const uint8_t* panel = args.panels + p * args.layout->panel_bytes;
    for (int64_t block = 0; block < cut.count; ++block) {
      fused_block<Math, KIND, MODE, kMaxRows>(args, cut.first_row(block + 1) - cut.first_row(block),
                                              panel, block_rows_at<Math>(args, cut, block, p));
    }
  }
}

}  // namespace
}  // namespace quire
