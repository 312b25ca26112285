// The interface of the source files that are compiled once for each instruction set: plain structs
// and tables of functions. Nothing here can use the standard library. These files are compiled for
// newer CPUs than the program needs, and the linker could keep their copy of an inline library
// function.
#pragma once

#include <stdint.h>

#include "kernels/cpu/attention_kernels.h"

namespace quire::cpu {

// Stored element types of weights and caches, in the order of the tables below.
enum Storage : int { kStoreF32 = 0, kStoreBf16 = 1, kStoreF16 = 2, kNumStorage = 3 };

// --- linear ---

// A packed weight is an array of panels of 32 outputs, each of which is read as one sequential
// stream:
//   bf16       [k / 2][32][2]   pairs along k, the order of dot-product instructions and AMX tiles
//   int8       [k / 4][32][4]   fours along k, likewise
//   f32, f16   [k][32]
// n is padded to 32 and k to the type's kKMultiple, both with zeros. After the panels an int8
// weight has n (padded) float scales and n int32 sums of each output's codes.
//
// PanelLayout::kTiles is for tile kernels, with bf16 and int8: each 64 bytes of k are two whole
// tiles, one for each half of the panel's outputs: [k / 32][2][16][16][2] and [k /
// 64][2][16][16][4]. A tile whose rows are contiguous loads faster
// (docs/decisions/071-panels-of-whole-tiles.md).
inline constexpr int64_t kPanelWidth = 32;
enum class PanelLayout { kRows, kTiles };

// Returns where in a panel the 4 bytes begin that are the k_word-th pair or four along k of a
// column (one of the 32 outputs).
constexpr int64_t panel_word_at(PanelLayout layout, int64_t k_word, int64_t column) {
  if (layout == PanelLayout::kRows) return (k_word * kPanelWidth + column) * 4;
  const int64_t tile = k_word / 16 * 2 + column / 16;
  return ((tile * 16 + k_word % 16) * 16 + column % 16) * 4;
}
inline constexpr int64_t kKMultipleFloat = 8;
inline constexpr int64_t kKMultipleBf16 = 32;  // one row of a tile
inline constexpr int64_t kKMultipleInt8 = 64;

// Activations are packed in ceil(m / rows_per_block()) blocks of rows whose sizes differ by at most
// one, the larger ones first. A block of r rows is
//   [k][r] floats,  [k / 2][r][2] bf16,  or for int8 [k / 4][r] words (their size is the kernel's).
// Blocks are contiguous, with x_padding bytes per row between them. For tiles the blocks of one
// chunk of k are contiguous instead (linear_tile_blocks-inl.h).
struct PackXArgs {
  const float* x;  // num_rows consecutive rows of one block
  int64_t x_stride;
  int64_t num_rows;
  int64_t first_row;   // of these rows, among the m of the call
  int64_t block_row;   // the block's first row, among the m of the call
  int64_t block_rows;  // of the whole block
  int64_t m;
  int64_t k;
  int64_t padded_k;
  void* out;      // the packed rows of the call
  float* scales;  // int8: [num_rows], factors of the packed values; else null
};

enum ActivationKind : int {
  kActSilu,
  kActGeluTanh,
  kActGeluErf,
  kActRelu,
  kActRelu2,
  kActQuickGelu,
  kActTanh
};

// For a product whose outputs are [gate | up]: y = act(gate) * up.
struct GatedPanels {
  void (*activate)(ActivationKind kind, const float* x, const float* gate, float* out,
                   int64_t n) = nullptr;
  ActivationKind kind = kActSilu;
  int64_t columns = 0;  // from an output of gate to the output of up that it multiplies
};

// How the rows of a call are cut into blocks, the larger ones first.
struct LinearRowCut {
  int64_t num_blocks;
  int64_t num_large;
  int64_t large_rows;  // of each of the first num_large blocks
  int64_t small_rows;  // of each of the others
  inline __attribute__((always_inline)) int64_t first_row(int64_t block) const {
    return block <= num_large ? block * large_rows
                              : num_large * large_rows + (block - num_large) * small_rows;
  }
  inline __attribute__((always_inline)) int64_t block_of(int64_t row) const {
    const int64_t first_small = num_large * large_rows;
    return row < first_small ? row / large_rows : num_large + (row - first_small) / small_rows;
  }
};

struct LinearPanelsArgs {
  const void* x;  // packed
  int64_t m;
  int64_t row_block;  // rows_per_block(kernels, m)
  LinearRowCut cut;   // linear_row_cut(kernels, m)
  int64_t padded_k;
  const void* panels;  // the first of num_panels
  int64_t num_panels;
  float* y;  // column 0 of the first panel
  int64_t y_stride;
  int64_t num_columns;  // of these panels, <= 32 * num_panels
  const float* bias;    // of column 0 of the first panel, or null
  bool accumulate;
  const float* x_scales;  // int8: [m]
  const float* w_scales;  // int8: of column 0 of the first panel, readable to its panel's end
  const int32_t* w_sums;  // likewise
  void* scratch;          // linear_scratch_bytes(kernels, m), 64-byte aligned
  // Not null only for kernels that apply the gate, with at least their least_own_gate_rows rows.
  // `panels`, biases and scales are then those of the gate, and those of up are gate->columns
  // outputs further on.
  const GatedPanels* gate = nullptr;
  bool past_caches = false;  // write y, whose rows are 64-byte aligned, past the caches
};

struct LinearKernels {
  int64_t row_block;
  int64_t few_rows_block = 0;  // row_block for up to kFewBlockRows rows; 0: the same
  // If not 0: from one full block and 2 rows to one full block and `last_block` rows, the first
  // block is full and the second has the rest, which the kernel multiplies faster than two even
  // blocks.
  int64_t last_block = 0;
  PanelLayout layout = PanelLayout::kRows;
  int64_t x_bytes;    // of one packed activation
  int64_t x_padding;  // bytes after each packed row of a block
  // Threads can pack rows of one block at once, because a packed row is contiguous in runs of 64
  // bytes.
  bool rows_apart;
  int64_t least_own_gate_rows = 0;  // the rows from which kernels apply a gate; 0: never
  int64_t least_panels = 1;         // the fewest for which to read packed rows, if they are many
  int64_t scratch_bytes;            // per thread, for more rows than row_block
  void (*pack_x)(const PackXArgs& args);       // keeps the floats, or quantizes them to int8
  void (*pack_x_bf16)(const PackXArgs& args);  // rounds them to bf16
  void (*panels[kNumStorage])(const LinearPanelsArgs& args);
  void (*panels_int8)(const LinearPanelsArgs& args);
};

// Products of up to this many rows wait for the weights, which larger blocks read less often.
inline constexpr int64_t kFewBlockRows = 48;
// Returns the most rows of a block.
static constexpr int64_t rows_per_block(const LinearKernels& kernels, int64_t m) {
  return m <= kFewBlockRows && kernels.few_rows_block > 0 ? kernels.few_rows_block
                                                          : kernels.row_block;
}

// Cuts m rows into blocks whose sizes differ by at most one, except with last_block.
static constexpr LinearRowCut linear_row_cut(const LinearKernels& kernels, int64_t m) {
  const int64_t most = rows_per_block(kernels, m);
  if (m >= most + 2 && m <= most + kernels.last_block) return {2, 1, most, m - most};
  if (m == 0) return {0, 0, 1, 1};
  const int64_t count = (m + most - 1) / most;
  return {count, m % count, m / count + 1, m / count};
}

static constexpr int64_t linear_scratch_bytes(const LinearKernels& kernels, int64_t m) {
  return m <= kernels.row_block ? 0 : kernels.scratch_bytes;
}

static constexpr int64_t round_up(int64_t x, int64_t multiple) {
  return (x + multiple - 1) / multiple * multiple;
}

// --- element-wise ---

struct RopeHeadArgs {
  float* head;  // [head_dim], rotated in place
  int32_t rotary_dim;
  bool interleaved;
  const float* cos;  // [rotary_dim / 2]
  const float* sin;
};

struct ElementKernels {
  // out = x / sqrt(mean(x^2) + eps) * weight over n elements; or add_to += that, if it is not null.
  void (*rms_norm)(const float* x, const float* weight, float* out, float* add_to, float eps,
                   int64_t n);
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float* out, float eps,
                     int64_t n);
  // out = act(x) * gate, or act(x) when gate is null.
  void (*activate)(ActivationKind kind, const float* x, const float* gate, float* out, int64_t n);
  void (*soft_cap)(float* x, float cap, int64_t n);
  // out = scale * row (+ position_row)
  void (*embed)(Storage storage, const void* row, float scale, const void* position_row, float* out,
                int64_t n);
  void (*rope)(const RopeHeadArgs& args);
  // Converts n floats to the storage type.
  void (*convert)(Storage storage, const float* x, void* out, int64_t n);
  // Returns the greatest of n >= 1 floats if all of them are finite, which it stores in
  // *all_finite.
  float (*greatest)(const float* x, int64_t n, bool* all_finite);
  // Returns the greatest of the finite floats x[i] whose bit, i % 32 of word i / 32, is 1;
  // -infinity if there is none.
  float (*greatest_allowed)(const float* x, const uint32_t* allowed, int64_t n);
};

// --- probes of the hardware's limits ---

struct ProbeKernels {
  // Runs `iterations` rounds of independent multiply-adds in registers; returns the FLOPs done.
  double (*multiply_add)(int64_t iterations, float* sink);
  double (*multiply_add_int8)(int64_t iterations, float* sink);  // exact sums of int8 products
  // Reads `bytes` (a multiple of 256) once, in order.
  void (*read)(const void* data, int64_t bytes, float* sink);
};

// One table per instruction set that this build has kernels for.
extern const LinearKernels kLinearPortable;
extern const LinearKernels kLinearAvx2;
extern const LinearKernels kLinearAvx512;
extern const LinearKernels kLinearAvx512Bf16;
extern const LinearKernels kLinearAmx;
extern const LinearKernels kLinearAmxEmulated;
extern const LinearKernels kLinearInt8Portable;
extern const LinearKernels kLinearInt8Avx2;
extern const LinearKernels kLinearInt8Avx2Vnni;
extern const LinearKernels kLinearInt8Avx512;
extern const LinearKernels kLinearInt8Avx512Vnni;
extern const LinearKernels kLinearInt8Amx;
extern const LinearKernels kLinearInt8AmxEmulated;
extern const AttentionKernels kAttentionPortable;
extern const AttentionKernels kAttentionAvx2;
extern const AttentionKernels kAttentionAvx512;
extern const AttentionKernels kAttentionAvx512Bf16;
extern const AttentionKernels kAttentionAvx512Codes;
extern const AttentionKernels kAttentionAmx;
extern const AttentionKernels kAttentionAmxEmulated;
extern const ProbeKernels kProbePortable;
extern const ProbeKernels kProbeAvx2;
extern const ProbeKernels kProbeAvx2Vnni;
extern const ProbeKernels kProbeAvx512;
extern const ProbeKernels kProbeAvx512Bf16;
extern const ProbeKernels kProbeAvx512Vnni;
extern const ProbeKernels kProbeAmx;
extern const ElementKernels kElementPortable;
extern const ElementKernels kElementAvx2;
extern const ElementKernels kElementAvx512;

}  // namespace quire::cpu
