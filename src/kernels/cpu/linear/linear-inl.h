// The linear kernel over vectors. Lanes are outputs, so nothing is summed across lanes, and each
// output has one accumulator that adds k = 0, 1, 2, … in order for any number of rows, which is law
// L4. (The bf16 dot product adds a pair as the instruction defines it, odd k first.)
#pragma once

#include "kernels/cpu/kernel_tables.h"
#include "kernels/cpu/linear/linear_outputs-inl.h"
#include "kernels/cpu/linear/linear_types-inl.h"
#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

// How far ahead of the loads the weights are prefetched if a panel is read once. With few rows
// memory is the limit: weights are prefetched kAheadFewRows ahead into the second-level cache,
// because the first level takes too few misses at a time (on Zen 4 this reads 3 to 6 % faster).
// With more rows arithmetic takes as long as memory, and prefetches into the second level further
// ahead hide one behind the other (measured at 8 rows: from 65 to 94 % of the bound).
constexpr int64_t kAheadNear = 2048;
constexpr int64_t kAheadFar = 10240;
constexpr int kFewRows = 5;

// Steps between two prefetches if a panel is read more than once. K is padded so that a panel has a
// multiple of these steps.
constexpr int64_t kStepsPerPrefetch = 4;
// The decoded weights of a chunk, which stay in the first-level cache.
constexpr int64_t kDecodedBytes = 16 << 10;
// The least rows of a group (PanelsCall), so that weights are not read too often, and the most.
constexpr int64_t kLeastGroupRows = 64;
constexpr int64_t kMostGroupRows = 256;
// The rows of a group times the panels that it takes together.
constexpr int64_t kGroupSums = 8 * kMostGroupRows;
constexpr int64_t kScratchBytes = kGroupSums * kPanelWidth * int64_t{sizeof(float)};

// The bytes between packed rows. They spread the same chunk of all blocks over the sets of the
// second-level cache, even if K is a power of two.
constexpr int64_t kXPadding = 512;

struct TileArgs {
  const void* x;  // packed block
  const uint8_t* w;
  int64_t num_steps;
  bool streams;  // the panel is read once, and the kernel prefetches its weights
  // Otherwise the kernel prefetches ahead_lines lines from `ahead` on per kStepsPerPrefetch steps.
  const uint8_t* ahead;
  int64_t ahead_lines;
  bool first;  // this is a panel's first chunk: sums start at 0, not from `sums` [rows][32]
  bool last;   // this is its last chunk: sums go to `out`, not to `sums`
  float* sums;
  Outputs out;
};

template <class Stored, int ROWS, int NV>
QUIRE_SIMD void sum_streaming(const TileArgs& t, typename Stored::Sum (&acc)[ROWS][NV]) {
  const auto* a = static_cast<const typename Stored::XWord*>(t.x);
  const uint8_t* w = t.w;
  for (int64_t i = 0; i < t.num_steps; ++i) {
    for (int64_t line = 0; line < Stored::kStepBytes; line += 64) {
      if (ROWS > kFewRows) prefetch(w + line + kAheadNear);
      prefetch_l2(w + line + (ROWS > kFewRows ? kAheadFar : Stored::kAheadFewRows));
    }
    Stored::template step<ROWS, NV>(a, w, acc);
    a += Stored::kXWords * ROWS;
    w += Stored::kStepBytes;
  }
}

template <class Stored, int ROWS, int NV>
QUIRE_SIMD void sum_again(const TileArgs& t, typename Stored::Sum (&acc)[ROWS][NV]) {
  const auto* a = static_cast<const typename Stored::XWord*>(t.x);
  const uint8_t* w = t.w;
  const uint8_t* ahead = t.ahead;
  const int64_t ahead_bytes = 64 * t.ahead_lines;
  for (int64_t i = 0; i < t.num_steps; i += kStepsPerPrefetch) {
    for (int64_t line = 0; line < ahead_bytes; line += 64) prefetch_l2(ahead + line);
    ahead += ahead_bytes;
    if constexpr (Stored::kUnrolls) {
#pragma GCC unroll 4
      for (int64_t j = 0; j < kStepsPerPrefetch; ++j) {
        Stored::template step<ROWS, NV>(a + j * Stored::kXWords * ROWS, w + j * Stored::kStepBytes,
                                        acc);
      }
      a += kStepsPerPrefetch * Stored::kXWords * ROWS;
      w += kStepsPerPrefetch * Stored::kStepBytes;
    } else {
      for (int64_t j = 0; j < kStepsPerPrefetch; ++j) {
        Stored::template step<ROWS, NV>(a, w, acc);
        a += Stored::kXWords * ROWS;
        w += Stored::kStepBytes;
      }
    }
  }
}

// These load and store the sums between chunks. The first argument only chooses the type.
QUIRE_SIMD F16 load_sum(F16, const float* p) { return load(p); }
QUIRE_SIMD void store_sum(float* p, F16 sum) { store(p, sum); }
QUIRE_SIMD Sums16 load_sum(Sums16, const float* p) { return load_sums(p); }
QUIRE_SIMD void store_sum(float* p, Sums16 sum) { store_sums(p, sum); }

template <class Stored, int ROWS, int NV>
static void tile(const TileArgs& t) {
  using Sum = typename Stored::Sum;
  static_assert(sizeof(Sum) == 16 * sizeof(float));
  Sum acc[ROWS][NV];
  if (t.first) {
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < NV; ++v) acc[r][v] = Stored::none();
    }
  } else {
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < NV; ++v) {
        acc[r][v] = load_sum(acc[r][v], t.sums + r * kPanelWidth + 16 * v);
      }
    }
  }
  if constexpr (Stored::kOutputs < kPanelWidth) {
    // Prefetches one line of each row of outputs, which are far away if there are many rows.
    if (t.last) {
      for (int r = 0; r < ROWS; ++r) prefetch(t.out.y + r * t.out.y_stride);
    }
  }
  if (Stored::kOutputs == kPanelWidth && t.streams) {
    sum_streaming<Stored, ROWS, NV>(t, acc);
  } else {
    sum_again<Stored, ROWS, NV>(t, acc);
  }
  if (!t.last) {
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < NV; ++v) {
        store_sum(t.sums + r * kPanelWidth + 16 * v, acc[r][v]);
      }
    }
    return;
  }
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) finish(t.out, r, v, Stored::result(t.out, r, v, acc[r][v]));
  }
}

// Computes all columns that Stored has side by side, for one block of rows: all at once, or 16 at a
// time if the registers cannot hold all sums.
template <class Stored, int ROWS>
static void panel_tile(const TileArgs& t) {
  if constexpr (Stored::kOutputs == 16) {
    tile<Stored, ROWS, 1>(t);
  } else if constexpr (2 * ROWS <= Stored::kWideSums) {
    tile<Stored, ROWS, 2>(t);
  } else {
    tile<Stored, ROWS, 1>(t);
    TileArgs second = t;
    second.w += Stored::kHalfBytes;
    second.sums += 16;
    second.out = columns_from(t.out, 16);
    if (second.out.num_columns > 0) tile<Stored, ROWS, 1>(second);
  }
}

using PanelTile = void (*)(const TileArgs&);

template <class Stored, int ROWS>
static PanelTile pick_tile(int64_t rows) {
  if constexpr (ROWS == 0) {
    (void)rows;
    return nullptr;
  } else {
    return rows == ROWS ? &panel_tile<Stored, ROWS> : pick_tile<Stored, ROWS - 1>(rows);
  }
}

QUIRE_SIMD int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }

// Returns the steps of a chunk, so that chunks are of about equal size.
QUIRE_SIMD int64_t chunk_steps_of(int64_t num_steps, int64_t most) {
  const int64_t chunks = (num_steps + most - 1) / most;
  return cpu::round_up((num_steps + chunks - 1) / chunks, kStepsPerPrefetch);
}

// Decodes half the outputs of a chunk of a panel.
template <class Stored>
static void decode_half(const uint8_t* w, int64_t num_steps, uint8_t* out) {
  for (int64_t i = 0; i < num_steps; ++i) {
    Stored::decode(w + i * Stored::kStepBytes, out + i * Stored::Decoded::kStepBytes);
  }
}

// How a call is cut for the caches. Panels are cut along K into chunks that stay in the
// second-level cache while one block of rows after the other multiplies them; partial sums are in
// scratch between chunks. Rows are cut into groups. The packed activations of a group for one chunk
// stay in that cache too, while one panel after the other multiplies its chunk: as many panels as
// have room for their sums there. Tile multiplies Stored itself, or what Stored is decoded to.
template <class Stored, class Tile>
struct PanelsCall {
  static constexpr bool kDecodes = Tile::kOutputs < kPanelWidth;
  static constexpr int64_t kPasses = kPanelWidth / Tile::kOutputs;  // passes over a chunk
  static constexpr int64_t kXStepBytes =
      Stored::kXWords * static_cast<int64_t>(sizeof(typename Stored::XWord));

  const LinearPanelsArgs& args;
  const cpu::LinearRowCut& cut;
  int64_t num_steps;  // steps of a panel
  int64_t panel_bytes;
  int64_t x_row_bytes;
  int64_t whole_chunk;  // steps of a chunk, if panels are cut
  PanelTile large;      // for the first, larger blocks
  PanelTile small;      // for the others

  explicit PanelsCall(const LinearPanelsArgs& call)
      : args(call),
        cut(call.cut),
        num_steps(call.padded_k / Stored::kStepK),
        panel_bytes(num_steps * Stored::kStepBytes),
        x_row_bytes(num_steps * kXStepBytes + kXPadding),
        whole_chunk(chunk_steps_of(
            num_steps, (kDecodes ? kDecodedBytes : Stored::kChunkBytes) / Tile::kStepBytes)),
        large(pick_tile<Tile, Stored::kRowBlock>(cut.num_large > 0 ? cut.large_rows : 0)),
        small(pick_tile<Tile, Stored::kRowBlock>(cut.small_rows)) {}

  int64_t blocks_of_group() const {
    const int64_t least = kLeastGroupRows / args.row_block;
    const int64_t most = kMostGroupRows / args.row_block;
    const int64_t fit = Stored::kRowGroupBytes / (args.row_block * whole_chunk * kXStepBytes);
    return fit < least ? least : min_of(fit, most);
  }
  inline __attribute__((always_inline)) const uint8_t* weights(int64_t panel, int64_t step) const {
    return static_cast<const uint8_t*>(args.panels) + panel * panel_bytes +
           step * Stored::kStepBytes;
  }
};

// The blocks of rows that multiply a chunk one after the other.
struct BlockGroup {
  int64_t first_block;
  int64_t num_blocks;
  int64_t first_row;
  int64_t num_rows;
  bool streams;  // it reads each panel once, whole
  int64_t chunk_steps;
};

// A chunk of a panel, and the next chunk, of which each block of a group prefetches a share.
struct PanelChunk {
  int64_t panel;
  int64_t step;
  const uint8_t* next;
  float* sums;  // of the group's first row
};

template <class Stored, class Tile>
QUIRE_SIMD void multiply_chunk(const PanelsCall<Stored, Tile>& call, const BlockGroup& group,
                               const PanelChunk& chunk) {
  using Call = PanelsCall<Stored, Tile>;
  constexpr int64_t kLines = kStepsPerPrefetch * Stored::kStepBytes / 64;
  const int64_t shares = Call::kPasses * group.num_blocks;
  const int64_t lines = (kLines + shares - 1) / shares;
  const int64_t share = lines * (group.chunk_steps / kStepsPerPrefetch) * 64;
  const int64_t chunk_bytes = group.chunk_steps * Stored::kStepBytes;
  const uint8_t* w = call.weights(chunk.panel, chunk.step);
  TileArgs t{.w = w,
             .num_steps = min_of(call.num_steps - chunk.step, group.chunk_steps),
             .streams = group.streams,
             .first = chunk.step == 0,
             .last = chunk.step + group.chunk_steps >= call.num_steps};
  for (int64_t pass = 0; pass < Call::kPasses; ++pass) {
    alignas(64) uint8_t decoded[Call::kDecodes ? kDecodedBytes : 1];
    if constexpr (Call::kDecodes) {
      decode_half<Stored>(w + pass * Stored::kHalfBytes, t.num_steps, decoded);
      t.w = decoded;
    }
    for (int64_t i = 0; i < group.num_blocks; ++i) {
      const int64_t block = group.first_block + i;
      const int64_t row = call.cut.first_row(block);
      const int64_t rows = call.cut.first_row(block + 1) - row;
      const int64_t ahead = (pass * group.num_blocks + i) * share;
      t.x = static_cast<const uint8_t*>(call.args.x) + row * call.x_row_bytes +
            chunk.step * rows * Call::kXStepBytes;
      t.ahead = chunk.next + ahead;
      t.ahead_lines = ahead < chunk_bytes ? lines : 0;
      t.sums = chunk.sums + (row - group.first_row) * kPanelWidth + pass * Tile::kOutputs;
      t.out = columns_from(outputs_of(call.args, row, chunk.panel), pass * Tile::kOutputs);
      if (t.out.num_columns > 0) (block < call.cut.num_large ? call.large : call.small)(t);
    }
  }
}

template <class Stored, class Tile>
QUIRE_SIMD void multiply_group(const PanelsCall<Stored, Tile>& call, const BlockGroup& group) {
  const int64_t num_panels = call.args.num_panels;
  const int64_t most_panels = group.chunk_steps == call.num_steps ? 1 : kGroupSums / group.num_rows;
  for (int64_t first = 0; first < num_panels; first += most_panels) {
    const int64_t end = min_of(first + most_panels, num_panels);
    for (int64_t step = 0; step < call.num_steps; step += group.chunk_steps) {
      for (int64_t panel = first; panel < end; ++panel) {
        multiply_chunk(call, group,
                       {.panel = panel,
                        .step = step,
                        .next = panel + 1 < end ? call.weights(panel + 1, step)
                                                : call.weights(first, step + group.chunk_steps),
                        .sums = static_cast<float*>(call.args.scratch) +
                                (panel - first) * group.num_rows * kPanelWidth});
      }
    }
  }
}

template <class Stored, class Tile>
static void multiply_panels(const LinearPanelsArgs& args) {
  const PanelsCall<Stored, Tile> call(args);
  const cpu::LinearRowCut& cut = args.cut;
  const int64_t group_blocks = call.blocks_of_group();
  for (int64_t first = 0; first < cut.num_blocks; first += group_blocks) {
    const int64_t num_blocks = min_of(cut.num_blocks - first, group_blocks);
    const int64_t first_row = cut.first_row(first);
    const bool streams = num_blocks == 1 && !call.kDecodes;
    multiply_group(call, {.first_block = first,
                          .num_blocks = num_blocks,
                          .first_row = first_row,
                          .num_rows = cut.first_row(first + num_blocks) - first_row,
                          .streams = streams,
                          .chunk_steps = streams ? call.num_steps : call.whole_chunk});
  }
}

template <class Stored>
static void linear_panels(const LinearPanelsArgs& args) {
  if constexpr (Stored::kDecodedBlocks > 0) {
    if (args.cut.num_blocks >= Stored::kDecodedBlocks) {
      return multiply_panels<Stored, typename Stored::Decoded>(args);
    }
  }
  multiply_panels<Stored, Stored>(args);
}

template <bool kRound>
static void pack_x_floats(const PackXArgs& args) {
  float* out = static_cast<float*>(args.out) +
               args.block_row * (args.padded_k + kXPadding / int64_t{sizeof(float)}) +
               args.first_row - args.block_row;
  for (int64_t r = 0; r < args.num_rows; ++r) {
    const float* x = args.x + r * args.x_stride;
    int64_t k = 0;
    for (; k + 16 <= args.k; k += 16) {
      F16 v = load(x + k);
      if constexpr (kRound) v = round_to_bf16(v);
      float s[16];
      store(s, v);
      float* to = out + k * args.block_rows + r;
      for (int i = 0; i < 16; ++i) to[i * args.block_rows] = s[i];
    }
    for (; k < args.padded_k; ++k) {
      float s[16] = {k < args.k ? x[k] : 0.0f};
      if constexpr (kRound) store(s, round_to_bf16(load(s)));
      out[k * args.block_rows + r] = s[0];
    }
  }
}

// The table that an instruction set exports for weights of any float type and float activations.
template <LinearTraits Traits>
constexpr cpu::LinearKernels kLinearOver = {
    .row_block = Traits::kManyRowsBlock,
    .few_rows_block = Traits::kRowBlock,
    .last_block = Traits::kWideBlock,
    .x_bytes = 4,
    .x_padding = kXPadding,
    .rows_apart = false,
    .scratch_bytes = kScratchBytes,
    .pack_x = &pack_x_floats<false>,
    .pack_x_bf16 = &pack_x_floats<true>,
    .panels = {&linear_panels<StoredF32<Traits>>, &linear_panels<StoredBf16<Traits>>,
               &linear_panels<StoredF16<Traits>>},
    .panels_int8 = nullptr,
};

#ifdef __AVX512BF16__
static void pack_x_pairs(const PackXArgs& args) {
  uint32_t* out = static_cast<uint32_t*>(args.out) +
                  args.block_row * (args.padded_k / 2 + kXPadding / int64_t{sizeof(uint32_t)}) +
                  args.first_row - args.block_row;
  for (int64_t r = 0; r < args.num_rows; ++r) {
    const float* x = args.x + r * args.x_stride;
    for (int64_t k = 0; k < args.padded_k; k += 32) {
      const int64_t left = args.k - k;
      const F16 first = left >= 16 ? load(x + k) : load_n(x + k, left);
      const F16 second =
          left >= 32 ? load(x + k + 16) : load_n(x + k + 16, left > 16 ? left - 16 : 0);
      uint16_t bits[32];
      store_bf16(bits, first);
      store_bf16(bits + 16, second);
      uint32_t words[16];
      __builtin_memcpy(words, bits, sizeof words);
      uint32_t* to = out + k / 2 * args.block_rows + r;  // padded_k: whole kKMultipleBf16
#pragma GCC unroll 16
      for (int64_t i = 0; i < 16; ++i) to[i * args.block_rows] = words[i];
    }
  }
}

// The table for bf16 weights alone, in products of pairs.
template <LinearTraits Traits>
constexpr cpu::LinearKernels kLinearOverPairs = {
    .row_block = Traits::kManyRowsBlock,
    .few_rows_block = Traits::kRowBlock,
    .x_bytes = 2,
    .x_padding = kXPadding,
    .rows_apart = false,
    .scratch_bytes = kScratchBytes,
    .pack_x = nullptr,
    .pack_x_bf16 = &pack_x_pairs,
    .panels = {nullptr, &linear_panels<StoredBf16Dot<Traits>>, nullptr},
    .panels_int8 = nullptr,
};
#endif

}  // namespace
}  // namespace quire
