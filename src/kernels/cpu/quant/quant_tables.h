// The packed layout of weight-only quantized matrices, and the table of the kernels that are
// compiled for each instruction set. As in kernel_tables.h, nothing here can use the standard
// library.
//
// A weight is an array of panels of 64 outputs, in four strips of 16. A panel has the regions
//   codes | scales | mins or zeros | super-scales | super-mins | units
// each of which starts on a 64-byte boundary. Codes are cut along K into chunks of 32:
// [chunk][strip][planes]. A plane holds `w` bits of every code: codes of 8 bits have one plane of
// 8, those of 6 planes of 4 and 2, of 5 of 4 and 1, of 3 of 2 and 1. A plane is a run of 64-byte
// vectors, each of 16 outputs x 32 / w values of k. In the 32-bit word of an output, k = 2 j + p
// has its bits at 16 p + w j, so one shift moves a pair of k to the low bits of the 16-bit halves
// of every word. Scales, mins and zeros are [group][64]. K is padded to chunks with codes 0, N with
// scales 0. Units are [64] of kUnitType: powers of two that bring the weights of an output into the
// range of float16.
#pragma once

#include <stdint.h>

#include "kernels/api/quant_spec.h"

namespace quire::cpu {

inline constexpr int64_t kQuantChunk = 32;
inline constexpr int64_t kQuantPanel = 64;
inline constexpr int64_t kQuantStrip = 16;
inline constexpr int64_t kQuantStrips = kQuantPanel / kQuantStrip;
// Kernels take two or four strips at once.
inline constexpr int64_t kQuantHalf = 2 * kQuantStrip;
// The columns whose values, of half a panel or of a strip, stay in the first-level cache with the
// rows that they are multiplied by.
inline constexpr int64_t kQuantSpan = 256;
inline constexpr ScaleType kUnitType = ScaleType::kE8M0;

struct QuantLayout {
  QuantSpec spec;
  int64_t k;
  int64_t padded_k;     // a multiple of kQuantChunk
  int64_t strip_bytes;  // a chunk of one strip: 64 * bits
  int64_t group_size;   // padded_k if there is one group
  int64_t num_groups;
  int64_t groups_per_super;  // >= 1
  int64_t span;              // columns whose scales are expanded at once: whole groups, up to
  int64_t groups_per_span;   // kQuantSpan or else one group
  int64_t num_spans;
  int64_t supers_per_span;  // rounded up
  int64_t scales_at;        // byte offsets in a panel
  int64_t zeros_at;
  int64_t super_scales_at;
  int64_t super_mins_at;
  int64_t units_at;
  int64_t panel_bytes;
  // Integer kernels decode codes to words w: c = (w - integer_offset) * integer_unit.
  int32_t integer_offset;
  float integer_unit;
  int64_t group_scale_bytes;  // the 64 scales of a group of a panel
  int64_t group_zero_bytes;
  int64_t super_scale_bytes;  // those of a super-group; its mins take as many
};

// Each kind of code has its own decoder. kTable4 and kTable8 look every code up; the others can
// also compute c = q - offset.
enum CodeKind : int {
  kCode2,
  kCode3,
  kCode4,
  kCode5,
  kCode6,
  kCode8,
  kTable4,
  kTable8,
  kNumCodeKinds
};

// bf16 and f32 have c of every code, repeated up to 256 entries. `steps` has the values of a table
// of 4 bits as integers from 0 on, in units of QuantLayout::integer_unit, repeated.
struct CodeValues {
  uint16_t bf16[256];
  float f32[256];
  uint8_t steps[64];
};

// Packs rows of x in the order of the packed columns, [padded_k / 2][num_rows] pairs of kPairSlots
// floats (simd_*.h) with zeros past K, and the numbers that the sums of each group need,
// [num_groups][slots][num_rows]. Slot 0 is minus the sum of x; integers have more
// (quant_integers-inl.h).
struct PackQuantXArgs {
  const float* x;
  int64_t x_stride;
  int64_t num_rows;
  const int32_t* column_order;  // or null
  const QuantLayout* layout;
  float* out;
  float* groups;
};

struct QuantPanelsArgs {
  // Packed rows: one block of up to fused_rows, or blocks of row_block, with x_padding columns
  // after each row.
  const float* x;
  const float* groups;  // one block after the other
  int64_t m;
  int64_t row_block;  // the most rows of a block
  const QuantLayout* layout;
  const CodeValues* values;
  const uint8_t* panels;  // the first of num_panels
  int64_t num_panels;
  float* y;  // column 0 of the first panel
  int64_t y_stride;
  int64_t num_columns;
  const float* bias;  // of column 0 of the first panel, or null
  bool accumulate;
  void* scratch;  // quant_scratch_bytes(), 64-byte aligned; for more than fused_rows rows
};

inline constexpr int64_t kSmallGroup = 64;

// The columns between packed rows. They spread the same columns of all blocks over the sets of a
// cache, even if K is a power of two.
inline constexpr int64_t kQuantXPadding = kQuantSpan;

struct QuantKernels {
  int64_t fused_rows;  // the most rows that are one block and need no scratch
  int64_t row_block;
  int64_t small_group_rows;  // row_block for groups of up to kSmallGroup columns
  int64_t x_padding;         // columns after each row of packed activations
  int64_t pair_slots;        // floats of a packed pair of activations
  int64_t group_slots;       // floats of a group of a row
  int64_t scratch_rows;      // the most rows whose sums are in scratch at a time
  int64_t scratch_row_bytes;
  // By ComputeType: keeps floats, rounds to bf16, or to int8. Null if there are no such kernels.
  void (*pack_x[3])(const PackQuantXArgs& args);
  void (*panels[kNumCodeKinds])(const QuantPanelsArgs& args);
};

// The largest group whose sum of products with activations of 16 bits (quant_integers-inl.h) fits
// in 32 bits.
inline constexpr int64_t kMostIntegerGroup = 256;
static constexpr bool sums_in_integers(const QuantLayout& layout) {
  return layout.spec.codebook != Codebook::kE4M3 && layout.group_size <= kMostIntegerGroup;
}

// How `m` rows are cut into blocks whose sizes differ by at most one, the larger ones first.
struct QuantRowCut {
  int64_t count;
  int64_t small_rows;
  int64_t num_large;
  int64_t first_row(int64_t block) const {
    return block * small_rows + (block < num_large ? block : num_large);
  }
};
static constexpr QuantRowCut quant_row_cut(int64_t m, int64_t row_block) {
  const int64_t count = (m + row_block - 1) / row_block;
  return {count, m / count, m % count};
}

static constexpr int64_t quant_scratch_bytes(const QuantKernels& kernels, int64_t m) {
  if (m <= kernels.fused_rows) return 0;
  const int64_t rows = (m + kernels.row_block - 1) / kernels.row_block * kernels.row_block;
  return (rows < kernels.scratch_rows ? rows : kernels.scratch_rows) * kernels.scratch_row_bytes;
}

// Tile kernels multiply more than one block of rows in groups of at most this many rows and panels,
// so that the data that they read again stays in the second-level cache. Their running sums are in
// scratch.
inline constexpr int64_t kQuantTileGroupRows = 512;
inline constexpr int64_t kQuantTileGroupPanels = 4;

extern const QuantKernels kQuantPortable;
extern const QuantKernels kQuantPortableCodes;
extern const QuantKernels kQuantAvx2;
extern const QuantKernels kQuantAvx2Integers;
extern const QuantKernels kQuantAvx2Vnni;
extern const QuantKernels kQuantAvx512;
extern const QuantKernels kQuantAvx512Vnni;
extern const QuantKernels kQuantAvx512Bytes;
extern const QuantKernels kQuantAvx512Bf16;
extern const QuantKernels kQuantAmx;
extern const QuantKernels kQuantAmxEmulated;

}  // namespace quire::cpu
