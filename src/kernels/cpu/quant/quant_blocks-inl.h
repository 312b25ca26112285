// Multiplies many rows by quantized weights. A piece of one or two strips is decoded to the values
// that a Math adds up, and then multiplied by blocks of rows.
#pragma once

#include "kernels/cpu/quant/quant_codes-inl.h"
#include "kernels/cpu/quant/quant_math-inl.h"
#include "kernels/cpu/quant/quant_panels-inl.h"
#include "kernels/cpu/quant/quant_scales-inl.h"
#include "kernels/cpu/quant/quant_tables.h"
#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

// The columns of k in a vector of values.
template <class Math>
constexpr int64_t kVectorColumns = 2 * Math::kVectorPairs;

// A piece: whole groups, or a part of one group, of kPieceStrips strips.
template <class Math>
struct Piece {
  const typename Math::Value* values;
  const float* scales;  // [group][2][32], as expand_scales, from the first strip on
  int64_t vectors;      // of each strip: one or more pairs of k
  int64_t vectors_per_group;
  bool opens;   // it begins where a group begins
  bool closes;  // it ends where a group ends
};

template <class Math, int J, class Codes>
QUIRE_SIMD void decode_pairs(const Codes& decoder, const uint8_t* strip,
                             typename Math::Value* out) {
  if constexpr (J < 16) {
    Math::store(out, decoder.template pair<J>(strip));
    decode_pairs<Math, J + Math::kVectorPairs>(decoder, strip,
                                               out + Math::kPieceStrips * kPairValues);
  }
}

// Decodes k columns of kPieceStrips strips. If `ahead` is not null, it prefetches codes meanwhile.
template <class Math, CodeKind KIND>
static void decode_piece(const CodeValues& values, int64_t strip_bytes, int64_t k,
                         const uint8_t* codes, CodePrefetch* ahead, typename Math::Value* out) {
  const typename Math::template Codes<KIND> decoder(values);
  for (int64_t chunk = 0; chunk < k; chunk += kQuantChunk) {
    if (ahead != nullptr) ahead->advance<chunk_bytes<KIND>() * Math::kPieceStrips / 2>();
#pragma GCC unroll 2
    for (int64_t i = 0; i < Math::kPieceStrips; ++i) {
      decode_pairs<Math, 0>(decoder, codes + i * strip_bytes, out + i * kPairValues);
    }
    codes += kQuantStrips * strip_bytes;
    out += kQuantChunk / 2 / Math::kVectorPairs * Math::kPieceStrips * kPairValues;
  }
}

// Between pieces the totals and the sums of an open group are stored, [rows][32] each.
constexpr int64_t kBlockRowBytes = 2 * kQuantHalf * int64_t{sizeof(float)};
struct BlockState {
  float* total;
  float* sums;
};

template <class Math, int ROWS, int NV>
QUIRE_SIMD void load_sums(Sums<Math, ROWS, NV>& sums, const float* from) {
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 2
    for (int i = 0; i < NV; ++i) sums.v[r][i] = load(from + r * kQuantHalf + i * kQuantStrip);
  }
}
template <class Math, int ROWS, int NV>
QUIRE_SIMD void store_sums(const Sums<Math, ROWS, NV>& sums, float* to) {
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 2
    for (int i = 0; i < NV; ++i) store(to + r * kQuantHalf + i * kQuantStrip, sums.v[r][i]);
  }
}

// Multiplies ROWS rows of one block by NV strips of the piece from `strip` on.
template <ZeroKind ZERO, class Math, int ROWS, int NV>
static void block_tile(const Piece<Math>& piece, int64_t strip, const float* x, const float* group,
                       const BlockState& state) {
  Sums<Math, ROWS, NV> sums;
  sums.clear();
  float* total_at = state.total + strip * kQuantStrip;
  [[maybe_unused]] float* sums_at = state.sums + strip * kQuantStrip;
  if constexpr (Math::kPiecesCutGroups) {
    if (!piece.opens) load_sums(sums, sums_at);
  }
  constexpr bool kInRegisters = kTotalsInRegisters<Math, ROWS, NV>;
  Totals<ROWS, NV, kInRegisters> total;
  if constexpr (kInRegisters) {
    load_sums(total.sums, total_at);
  } else {
    total.at = total_at;
  }
  const typename Math::Value* values = piece.values + strip * kPairValues;
  const float* scales = piece.scales + strip * kQuantStrip;
  for (int64_t left = piece.vectors; left > 0; left -= piece.vectors_per_group) {
    for (int64_t vector = min_of(left, piece.vectors_per_group); vector > 0; --vector) {
      Math::template add_stored<ROWS, NV>(sums.v, x, values);
      values += Math::kPieceStrips * kPairValues;
      x += ROWS * Math::kPairSlots;
    }
    if constexpr (Math::kPiecesCutGroups) {
      if (!piece.closes) return store_sums(sums, sums_at);
    }
    close_group_of<ZERO>([&](int i) { return load(scales + i * kQuantStrip); },
                         [&](int i) { return load(scales + kQuantHalf + i * kQuantStrip); }, group,
                         sums, total);
    scales += kGroupFloats;
    group += Math::kGroupSlots * ROWS;
  }
  if constexpr (kInRegisters) store_sums(total.sums, total_at);
}

template <ZeroKind ZERO, class Math, int ROWS>
static void block_rows_of(int64_t rows, const Piece<Math>& piece, const float* x,
                          const float* group, const BlockState& state) {
  if constexpr (ROWS > 0) {
    if (rows != ROWS) return block_rows_of<ZERO, Math, ROWS - 1>(rows, piece, x, group, state);
    for (int64_t strip = 0; strip < Math::kPieceStrips; strip += Math::kBlockStrips) {
      block_tile<ZERO, Math, ROWS, Math::kBlockStrips>(piece, strip, x, group, state);
    }
  }
}
// There is one function per kind of zero, because in one function for all sums would leave the
// registers.
template <class Math>
static void block_rows(int64_t rows, ZeroKind zero_kind, const Piece<Math>& piece, const float* x,
                       const float* group, const BlockState& state) {
  constexpr int kRows = Math::kRowBlock;
  switch (zero_kind) {
    case ZeroKind::kNone:
      return block_rows_of<ZeroKind::kNone, Math, kRows>(rows, piece, x, group, state);
    case ZeroKind::kInteger:
      return block_rows_of<ZeroKind::kInteger, Math, kRows>(rows, piece, x, group, state);
    case ZeroKind::kMin:
      return block_rows_of<ZeroKind::kMin, Math, kRows>(rows, piece, x, group, state);
  }
}

// A group is blocks [begin, end) of the rows.
struct BlockGroup {
  cpu::QuantRowCut cut;
  int64_t begin;
  int64_t end;
};

// The place of a piece in half a panel, and the sums of the group's rows up to there.
struct PiecePlace {
  int64_t k;
  int64_t first_group;
  int64_t strip;
  BlockState state;  // for the group's first row and the half's first strip
};

// Multiplies a piece by all blocks of a group.
template <class Math>
static void piece_by_blocks(const QuantPanelsArgs& args, const BlockGroup& group,
                            const Piece<Math>& piece, const PiecePlace& at) {
  const QuantLayout& layout = *args.layout;
  const int64_t first_row = group.cut.first_row(group.begin);
  for (int64_t block = group.begin; block < group.end; ++block) {
    const int64_t row = group.cut.first_row(block);
    const int64_t rows = group.cut.first_row(block + 1) - row;
    const int64_t state = (row - first_row) * kQuantHalf + at.strip * kQuantStrip;
    block_rows<Math>(
        rows, layout.spec.zero_kind, piece,
        args.x + x_offset<Math>(layout, row) +
            at.k / kVectorColumns<Math> * rows * Math::kPairSlots,
        args.groups + (row * layout.num_groups + at.first_group * rows) * Math::kGroupSlots,
        {at.state.total + state, at.state.sums + state});
  }
}

// Multiplies a group of rows by half a panel. `output` is that of its first row.
template <class Math, CodeKind KIND>
static void block_half(const QuantPanelsArgs& args, const BlockGroup& group, const uint8_t* panel,
                       int64_t half, const Output& output) {
  const QuantLayout& layout = *args.layout;
  const int64_t num_rows = group.cut.first_row(group.end) - group.cut.first_row(group.begin);
  alignas(64) typename Math::Value values[kQuantSpan / 2 * Math::kPieceStrips * kPairValues];
  alignas(64) float scales[kQuantSpan / 16 * kGroupFloats];
  float* total = static_cast<float*>(args.scratch);
  const BlockState state{.total = total, .sums = total + num_rows * kQuantHalf};
  for (int64_t i = 0; i < num_rows * kQuantHalf; i += kQuantStrip) store(total + i, zero());
  GroupWalk walk{.until_super = layout.groups_per_super};
  CodePrefetch ahead(layout, panel);
  const uint8_t* codes = panel + half * 2 * layout.strip_bytes;
  int64_t first_group = 0;
  for (int64_t k0 = 0; k0 < layout.padded_k; k0 += layout.span) {
    const int64_t num_groups = min_of(layout.num_groups - first_group, layout.groups_per_span);
    expand_scales(layout, panel, half, walk, num_groups, scales);
    const int64_t end = min_of(k0 + layout.span, layout.padded_k);
    for (int64_t k = k0; k < end; k += kQuantSpan) {
      const int64_t piece_k = min_of(kQuantSpan, end - k);
      for (int64_t strip = 0; strip < 2; strip += Math::kPieceStrips) {
        decode_piece<Math, KIND>(*args.values, layout.strip_bytes, piece_k,
                                 codes + strip * layout.strip_bytes, half == 0 ? &ahead : nullptr,
                                 values);
        piece_by_blocks<Math>(
            args, group,
            {.values = values,
             .scales = scales + strip * kQuantStrip,
             .vectors = piece_k / kVectorColumns<Math>,
             .vectors_per_group = min_of(piece_k, layout.group_size) / kVectorColumns<Math>,
             .opens = k == k0,
             .closes = k + piece_k == end},
            {.k = k, .first_group = first_group, .strip = strip, .state = state});
      }
      codes += piece_k / kQuantChunk * kQuantStrips * layout.strip_bytes;
    }
    first_group += num_groups;
  }
  for (int64_t row = 0; row < num_rows; ++row) {
    for (int64_t column = 0; column < kQuantHalf; column += kQuantStrip) {
      output.finish(row, half * kQuantHalf + column, load(total + row * kQuantHalf + column));
    }
  }
}

// Rows are multiplied in groups. kQuantSpan columns of a group stay in the second-level cache, with
// its totals, for one panel after the other. Groups are whole blocks of about this many rows, and
// equal.
template <class Math>
constexpr int64_t kGroupRows = (320 << 10) / (kQuantSpan / 2 * Math::kPairSlots * 4);

template <class Math, CodeKind KIND>
static void block_panels(const QuantPanelsArgs& args) {
  const cpu::QuantRowCut cut = cpu::quant_row_cut(args.m, args.row_block);
  const int64_t groups = (args.m + kGroupRows<Math> - 1) / kGroupRows<Math>;
  for (int64_t group = 0; group < groups; ++group) {
    const BlockGroup rows{cut, cut.count * group / groups, cut.count * (group + 1) / groups};
    for (int64_t p = 0; p < args.num_panels; ++p) {
      for (int64_t half = 0; half < 2; ++half) {
        block_half<Math, KIND>(args, rows, args.panels + p * args.layout->panel_bytes, half,
                               output_at(args, cut.first_row(rows.begin), p * kQuantPanel));
      }
    }
  }
}

}  // namespace
}  // namespace quire
