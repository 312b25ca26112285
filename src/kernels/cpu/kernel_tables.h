// What the files compiled per instruction set offer to the code above them: plain structs and
// tables of functions. Nothing here may pull in the standard library: these files are compiled for
// newer CPUs than the program needs, and an inline library function compiled there could be the
// copy that the linker keeps.
#pragma once

#include <stdint.h>

#include "kernels/cpu/attention_kernels.h"

namespace quire::cpu {

// Stored element types of weights and caches, in the order of the tables below.
enum Storage : int { kStoreF32 = 0, kStoreBf16 = 1, kStoreF16 = 2, kNumStorage = 3 };

// --- linear
// ------------------------------------------------------------------------------------------------------

// Weights lie in panels of 32 outputs, one after the other, each a single sequential stream:
//   bf16       [k / 2][32][2]   pairs along k, as dot-product instructions and AMX tiles want them
//   int8       [k / 4][32][4]   fours along k, likewise
//   f32, f16   [k][32]
// with n padded to 32 and k to kKMultiple of the type, both with zeros. Behind the panels of int8
// weights come n (padded) float scales and n int32 sums of each output's codes.
//
// Where tiles multiply bf16 and int8, each 64 bytes of k are two whole tiles instead, the 16 outputs
// of either half of the panel: [k / 32][2][16][16][2] and [k / 64][2][16][16][4]. A tile whose rows
// lie side by side is loaded faster (docs/decisions/071-panels-of-whole-tiles.md).
inline constexpr int64_t kPanelWidth = 32;
enum class PanelLayout { kRows, kTiles };

// Where the 4 bytes of a pair or four along k begin: the k_word-th of one of the 32 outputs.
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
//   [k][r] floats,  [k / 2][r][2] bf16,  [k / 4][r] words for int8 (as many as the kernel wants),
// and blocks follow each other, with x_padding bytes per row between them; for tiles all blocks of
// a chunk of k do (linear_tile_blocks-inl.h).
struct PackXArgs {
  const float* x;  // num_rows consecutive rows of one block
  int64_t x_stride;
  int64_t num_rows;
  int64_t first_row;   // of these rows, among the m of the call
  int64_t block_row;   // of the block
  int64_t block_rows;  // of the whole block
  int64_t m;
  int64_t k;
  int64_t padded_k;
  void* out;      // the packed rows of the call
  float* scales;  // int8: [num_rows], what to multiply the packed values by; else null
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

// Of a product whose outputs are [gate | up], y = act(gate) * up.
struct GatedPanels {
  void (*activate)(ActivationKind kind, const float* x, const float* gate, float* out,
                   int64_t n) = nullptr;
  ActivationKind kind = kActSilu;
  int64_t columns = 0;  // from an output of the gate to the one of up that it is multiplied by
};

// Rows of a call in blocks, the larger ones first.
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
  // For kernels that gate, from their least_own_gate_rows on; else null and false. `panels`, biases
  // and scales are those of the gate, and those of up lie gate->columns outputs further.
  const GatedPanels* gate = nullptr;
  bool past_caches = false;  // y, whose rows begin on 64 bytes, would only fill the caches
};

struct LinearKernels {
  int64_t row_block;
  int64_t few_rows_block = 0;  // of up to kFewBlockRows rows, where they have blocks of their own
  // The second of two blocks may have two rows to so many where the first is full: a kernel multiplies
  // both faster than two of an even cut. 0: it does not.
  int64_t last_block = 0;
  PanelLayout layout = PanelLayout::kRows;
  int64_t x_bytes;    // of one packed activation
  int64_t x_padding;  // bytes behind each packed row of a block
  // A packed row's bytes are consecutive in runs of 64, so rows of one block can be packed by
  // different threads.
  bool rows_apart;
  int64_t least_own_gate_rows = 0;  // from so many rows on a kernel gates by itself; 0: never
  int64_t least_panels = 1;         // that are worth reading packed rows for, where these are many
  int64_t scratch_bytes;            // of a thread, for more rows than row_block
  void (*pack_x)(const PackXArgs& args);       // keeps the floats, or quantizes them to int8
  void (*pack_x_bf16)(const PackXArgs& args);  // rounds them to bf16
  void (*panels[kNumStorage])(const LinearPanelsArgs& args);
  void (*panels_int8)(const LinearPanelsArgs& args);
};

// Larger blocks read the weights less often, which is what so few rows wait for.
inline constexpr int64_t kFewBlockRows = 48;
// The most rows of a block.
static constexpr int64_t rows_per_block(const LinearKernels& kernels, int64_t m) {
  return m <= kFewBlockRows && kernels.few_rows_block > 0 ? kernels.few_rows_block
                                                          : kernels.row_block;
}

// Blocks whose numbers of rows differ by at most one, but for last_block.
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

// --- element-wise
// ------------------------------------------------------------------------------------------------

struct RopeHeadArgs {
  float* head;  // [head_dim], rotated in place
  int32_t rotary_dim;
  bool interleaved;
  const float* cos;  // [rotary_dim / 2]
  const float* sin;
};

struct ElementKernels {
  // out (or add_to +=) x / sqrt(mean(x^2) + eps) * weight over n elements.
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
  // The greatest of n >= 1 floats, where all are finite.
  float (*greatest)(const float* x, int64_t n, bool* all_finite);
  // The greatest of those of n finite floats whose bit is 1, in words of 32; -infinity: none is.
  float (*greatest_allowed)(const float* x, const uint32_t* allowed, int64_t n);
};

// --- probes of the hardware's limits
// -----------------------------------------------------------------------------

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
