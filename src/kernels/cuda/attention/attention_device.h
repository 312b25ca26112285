// Functions that the attention kernels share. Prefill and decode use the same functions for the
// same arithmetic, so a token has the same bits in either (law L4, deterministic mode): scores over
// k in ascending order, maxima per tile of 64 positions, sums of bf16 weights by tensor cores over
// positions in ascending order, and splits folded in ascending order.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/attention/attention_work.h"
#include "kernels/cuda/attention/swizzle.h"
#include "kernels/cuda/device_code.h"
#include "kernels/cuda/float8.h"

namespace quire::cuda {

inline constexpr int kAttentionThreads = 128;  // four warps
inline constexpr uint32_t kBf16Ones = 0x3f803f80u;
inline constexpr float kLog2E = 1.44269504088896340736f;

struct AttentionArgs {
  const bfloat16* query = nullptr;  // [T, Hq, D], rows query_stride apart
  int64_t query_stride = 0;
  const uint8_t* key = nullptr;  // blocks of [Hkv][S][D], bf16 or e4m3
  const uint8_t* value = nullptr;
  int64_t block_stride = 0;          // elements
  const float* key_scale = nullptr;  // e4m3: [Hkv] or null, the factors of the codes
  const float* value_scale = nullptr;
  bool is_fp8 = false;
  int32_t block_shift = 4;  // log2 S
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;    // a multiple of 8; of 16 with e4m3; of 2 in the plain kernel
  int32_t value_dim = 0;   // may be less than head_dim in a latent cache
  bool is_latent = false;  // a value is the first value_dim dims of its key
  const int32_t* query_start_loc = nullptr;
  const int32_t* seq_lens = nullptr;
  const int32_t* block_table = nullptr;
  int64_t max_blocks = 0;
  int32_t num_reqs = 0;
  float scale = 1.0f;
  float soft_cap = 0.0f;
  const float* alibi_slopes = nullptr;  // [Hq] or null
  const float* sinks = nullptr;
  bfloat16* out = nullptr;  // [T, Hq, value_dim]
  AttentionCut cut{};
  bool fold_splits = false;  // prefill: ends each split as decode does
  CutLists lists{};
  bool is_cut = false;        // by a kernel before the last one, so the lists can be read at once
  float* partials = nullptr;  // [partial row, Hkv, value_dim + 2]: sums, maximum, weight
  float* totals = nullptr;    // prefill with fold_splits: scratch of each block
};

struct AttentionItem {
  int32_t request = 0;
  int32_t kv_head = 0;
  int32_t first_row = 0;  // packed rows [first_row, end_row) of the request
  int32_t end_row = 0;
  int32_t first_token = 0;     // of the request in the batch
  int32_t first_position = 0;  // of the request's first token of the step
  int32_t begin = 0;           // positions [begin, end) that may be read
  int32_t end = 0;
  const int32_t* block_table = nullptr;
  float scale = 1.0f;  // of scores, times the scale of the keys
};

// Returns the request r with starts[r] <= item < starts[r + 1], or the first request for an item
// before all of them. All lanes of a warp must call it.
QUIRE_DEVICE int32_t find_request_by_warp(const int32_t* starts, int32_t num_reqs, int32_t item) {
  const int lane = ptx::thread_index() % 32;
  int32_t first = 0;
  int32_t count = num_reqs;  // the request is one of `count` from `first` on
  while (count > 1) {
    const int32_t step = (count + 31) / 32;
    const int32_t offset = lane * step;
    const bool begins_before = offset < count && (offset == 0 || starts[first + offset] <= item);
    const int32_t skipped = (ptx::count_bits(ptx::ballot(begins_before)) - 1) * step;
    first += skipped;
    count = count - skipped < step ? count - skipped : step;
  }
  return first;
}

QUIRE_DEVICE AttentionItem make_item(const AttentionArgs& args, int32_t request, int32_t kv_head,
                                     int32_t first_row, int32_t max_rows) {
  AttentionItem item;
  item.request = request;
  item.kv_head = kv_head;
  item.first_token = args.query_start_loc[request];
  const int32_t query_len = args.query_start_loc[request + 1] - item.first_token;
  const int32_t rows = query_len * args.cut.group;
  item.first_row = first_row;
  item.end_row = first_row + max_rows < rows ? first_row + max_rows : rows;
  item.first_position = args.seq_lens[request] - query_len;
  item.begin = first_visible(args.cut, item.first_position + first_row / args.cut.group);
  item.end = item.first_position + (item.end_row - 1) / args.cut.group + 1;
  item.block_table = args.block_table + request * args.max_blocks;
  item.scale =
      args.key_scale == nullptr ? args.scale : ptx::multiply(args.scale, args.key_scale[kv_head]);
  return item;
}

// Copies the query rows of the item to shared memory, kRows x kHeadDim, with zeros past the item's
// rows and dims.
template <int kHeadDim, int kRows>
QUIRE_DEVICE void load_query(const AttentionArgs& args, const AttentionItem& item, uint8_t* to) {
  constexpr int kChunks = kHeadDim / 8;
  const int32_t group = args.cut.group;
  for (int i = ptx::thread_index(); i < kRows * kChunks; i += kAttentionThreads) {
    const int row = i / kChunks;
    const int chunk = i % kChunks;
    const int32_t packed = item.first_row + row;
    const bool valid = packed < item.end_row && chunk * 8 < args.head_dim;
    const int64_t token = valid ? item.first_token + packed / group : item.first_token;
    const int64_t head = item.kv_head * group + (valid ? packed % group : 0);
    const bfloat16* from =
        args.query + token * args.query_stride + head * args.head_dim + (valid ? chunk * 8 : 0);
    ptx::copy_async_16(to + swizzled_offset(row, chunk, kChunks), from, valid);
  }
}

// The tiles in shared memory from kBegin on: keys and values as they are loaded, kStages deep. With
// e4m3 those are codes, and one tile each of keys and values, expanded to bf16, follows.
template <int kHeadDim, bool kFp8, int kStages, int kBegin>
struct TileMemory {
  static constexpr int kTile = kAttentionTile * kHeadDim * 2;
  static constexpr int kLoaded = kFp8 ? kTile / 2 : kTile;
  static constexpr int kLoadedKeys = kBegin;
  static constexpr int kLoadedValues = kLoadedKeys + kStages * kLoaded;
  static constexpr int kKeys = kLoadedValues + kStages * kLoaded;
  static constexpr int kValues = kKeys + (kFp8 ? kTile : 0);
  static constexpr int kEnd = kValues + (kFp8 ? kTile : 0);
};
struct TileView {
  const uint8_t* keys;
  const uint8_t* values;
};

// Copies keys and values of positions [first, first + 64) to a stage, with zeros outside of [begin,
// end) and past the dims.
template <int kHeadDim, bool kFp8, typename Memory>
QUIRE_DEVICE void load_tile(const AttentionArgs& args, const AttentionItem& item, int32_t first,
                            int32_t begin, int32_t end, int stage, uint8_t* memory) {
  constexpr int kElement = kFp8 ? 1 : 2;
  constexpr int kChunkDims = 16 / kElement;
  constexpr int kChunks = kHeadDim / kChunkDims;
  uint8_t* keys = memory + Memory::kLoadedKeys + stage * Memory::kLoaded;
  uint8_t* values = memory + Memory::kLoadedValues + stage * Memory::kLoaded;
  const int32_t offset_mask = (1 << args.block_shift) - 1;
  const int64_t head = (int64_t{item.kv_head} << args.block_shift) * args.head_dim;
#pragma unroll 4
  for (int i = ptx::thread_index(); i < kAttentionTile * kChunks; i += kAttentionThreads) {
    const int row = i / kChunks;
    const int chunk = i % kChunks;
    const int32_t position = first + row;
    const bool valid = position >= begin && position < end && chunk * kChunkDims < args.head_dim;
    int64_t at = 0;
    if (valid) {
      const int64_t block = item.block_table[position >> args.block_shift];
      at = block * args.block_stride + head + int64_t{position & offset_mask} * args.head_dim +
           chunk * kChunkDims;
    }
    const int to = kFp8 ? i * 16 : swizzled_offset(row, chunk, kChunks);
    ptx::copy_async_16(keys + to, args.key + at * kElement, valid);
    ptx::copy_async_16(values + to, args.value + at * kElement, valid);
  }
}

template <int kHeadDim>
QUIRE_DEVICE void expand_tile(const uint8_t* codes, uint8_t* tile) {
  constexpr int kChunks = kHeadDim / 8;
#pragma unroll 2
  for (int i = ptx::thread_index(); i < kAttentionTile * kChunks / 2; i += kAttentionThreads) {
    using Chunk = Elements<4, uint32_t>;
    const Bf16Chunks chunks = expand_e4m3(*reinterpret_cast<const Chunk*>(codes + i * 16));
    const int row = i / (kChunks / 2);
    const int chunk = i % (kChunks / 2) * 2;
#pragma unroll
    for (int j = 0; j < 2; ++j)
      *reinterpret_cast<Chunk*>(tile + swizzled_offset(row, chunk + j, kChunks)) = chunks.at[j];
  }
}

// Returns a stage that has been loaded, as bf16, for the whole block; e4m3 codes are expanded here.
// The tile that was returned last must not be read any more.
template <int kHeadDim, bool kFp8, typename Memory>
QUIRE_DEVICE TileView landed_tile(int stage, uint8_t* memory) {
  const uint8_t* keys = memory + Memory::kLoadedKeys + stage * Memory::kLoaded;
  const uint8_t* values = memory + Memory::kLoadedValues + stage * Memory::kLoaded;
  if constexpr (kFp8) {
    expand_tile<kHeadDim>(keys, memory + Memory::kKeys);
    expand_tile<kHeadDim>(values, memory + Memory::kValues);
    ptx::sync_threads();
    return {memory + Memory::kKeys, memory + Memory::kValues};
  } else {
    return {keys, values};
  }
}

// Returns whether changed_score() computes the scores, which it does with a soft cap or ALiBi. exp2
// needs scores in units of log2: without such changes score_factor() converts dot products to them,
// and with changes changed_score() does, and the factor is 1.
QUIRE_DEVICE bool changes_scores(const AttentionArgs& args) {
  return args.soft_cap > 0.0f || args.alibi_slopes != nullptr;
}
QUIRE_DEVICE float score_factor(const AttentionArgs& args, const AttentionItem& item) {
  return changes_scores(args) ? 1.0f : ptx::multiply(item.scale, kLog2E);
}
// Returns the score of a dot product, capped if there is a soft cap.
QUIRE_DEVICE float capped_score(const AttentionArgs& args, const AttentionItem& item, float dot) {
  const float score = ptx::multiply(dot, item.scale);
  if (args.soft_cap <= 0.0f) return score;
  return ptx::multiply(args.soft_cap, tanhf(ptx::divide(score, args.soft_cap)));
}

// Returns a score after ALiBi. `distance` is the query's position minus the key's.
QUIRE_DEVICE float score_with_alibi(float slope, int32_t distance, float score) {
  return ptx::multiply_add(-slope, static_cast<float>(distance), score);
}

QUIRE_DEVICE float changed_score(const AttentionArgs& args, const AttentionItem& item, int32_t head,
                                 int32_t distance, float dot) {
  float score = capped_score(args, item, dot);
  if (args.alibi_slopes != nullptr)
    score = score_with_alibi(args.alibi_slopes[head], distance, score);
  return ptx::multiply(score, kLog2E);
}

QUIRE_DEVICE bool is_visible(const AttentionArgs& args, int32_t query_position, int32_t position) {
  return position <= query_position && position >= first_visible(args.cut, query_position);
}

// Returns the maximum to subtract: 0 while no score was seen, so that no infinity is subtracted
// from another.
QUIRE_DEVICE float finite_maximum(float maximum) {
  return maximum == -ptx::infinity() ? 0.0f : maximum;
}

// Returns the softmax weight of a score: 0 for -infinity.
QUIRE_DEVICE float softmax_weight(float score, float factor, float base) {
  return ptx::exp2_fast(ptx::multiply_add(score, factor, -base));
}
// Returns the row's next maximum after a tile whose greatest score is `seen`. Weights may grow to
// 2^8 before the maximum is raised, so that sums seldom have to be rescaled.
QUIRE_DEVICE float raised_maximum(float maximum, float seen) {
  constexpr float kSlack = 8.0f;
  return seen > ptx::add(maximum, kSlack) ? seen : maximum;
}

// The factors by which total and split are multiplied when both get the maximum of the two.
struct FoldFactors {
  float maximum;
  float total;
  float split;
};
QUIRE_DEVICE FoldFactors fold_factors(float total_maximum, float split_maximum) {
  const float maximum = ptx::max(total_maximum, split_maximum);
  const float base = finite_maximum(maximum);
  return {maximum, ptx::exp2_fast(ptx::add(total_maximum, -base)),
          ptx::exp2_fast(ptx::add(split_maximum, -base))};
}
QUIRE_DEVICE float fold(const FoldFactors& factors, float total, float split) {
  return ptx::multiply_add(total, factors.total, ptx::multiply(split, factors.split));
}

// The factor of each sum of a row at the end. A sink adds to the row's weight and to no value.
struct Finish {
  float factor = 1.0f;
};
QUIRE_DEVICE Finish finish_row(const AttentionArgs& args, int32_t head, float maximum,
                               float weight) {
  const float scale = args.value_scale == nullptr ? 1.0f : args.value_scale[head / args.cut.group];
  if (args.sinks == nullptr) return {ptx::divide(scale, weight)};
  const float sink = ptx::multiply(args.sinks[head], kLog2E);
  const FoldFactors factors = fold_factors(maximum, sink);
  return {ptx::divide(ptx::multiply(factors.total, scale),
                      ptx::multiply_add(weight, factors.total, factors.split))};
}
QUIRE_DEVICE float finished(const Finish& finish, float sum) {
  return ptx::multiply(sum, finish.factor);
}

QUIRE_DEVICE bfloat16* out_row(const AttentionArgs& args, const AttentionItem& item,
                               int32_t packed) {
  const int64_t token = item.first_token + packed / args.cut.group;
  const int64_t head = item.kv_head * args.cut.group + packed % args.cut.group;
  const int64_t num_heads = int64_t{args.num_kv_heads} * args.cut.group;
  return args.out + (token * num_heads + head) * args.value_dim;
}

// Returns the address that lane `lane` gives to load_matrices() for an A operand (or, transposed,
// for a k-major B operand): 16 rows from `row`, 16 columns from chunk `chunk`.
QUIRE_DEVICE const uint8_t* matrix_row(const uint8_t* tile, int row, int chunk, int chunks) {
  const int lane = ptx::thread_index() % 32;
  return tile + swizzled_offset(row + lane / 8 % 2 * 8 + lane % 8, chunk + lane / 16, chunks);
}
// Does the same for an n-major B operand: registers 0, 1 are n 0-7, registers 2, 3 are n 8-15.
QUIRE_DEVICE const uint8_t* matrix_row_n(const uint8_t* tile, int row, int chunk, int chunks) {
  const int lane = ptx::thread_index() % 32;
  return tile + swizzled_offset(row + lane / 16 * 8 + lane % 8, chunk + lane / 8 % 2, chunks);
}

}  // namespace quire::cuda
