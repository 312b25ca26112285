// The interface between attention.cc and the attention kernels, which are compiled once for each
// instruction set (kernel_tables.h).
#pragma once

#include <stdint.h>

namespace quire::cpu {

// Positions are cut into tiles and splits at fixed absolute places, so that the order in which a
// row is reduced depends on its own position alone (law L4).
inline constexpr int32_t kAttentionTile = 64;
inline constexpr int32_t kAttentionSplit = 512;
// A row is one query head of one token. An item should have about kAttentionRows rows; an item of
// many tokens has at most kAttentionMaxRows.
inline constexpr int32_t kAttentionRows = 64;
inline constexpr int32_t kAttentionMaxRows = 256;
// The most rows whose accumulators are in registers at once: a group of rows.
inline constexpr int32_t kAttentionMaxRowBlock = 8;
// The most groups of rows whose scores are computed and whose values are not yet summed.
inline constexpr int32_t kAttentionStepsInFlight = 3;

// Returns the first position that a query at `position` sees: the start of its window or its chunk.
static constexpr int32_t attention_begin(int32_t window, bool window_is_chunk, int32_t position) {
  if (window == 0) return 0;
  if (window_is_chunk) return position - position % window;
  return position >= window ? position - window + 1 : 0;
}

// Types of cache, in the order of the tables below.
enum CacheKind : int {
  kCacheF32,
  kCacheBf16,
  kCacheF16,
  kCacheE4M3,
  kCacheE5M2,
  kCacheInt8,
  kNumCacheKinds
};

// A work item covers consecutive query tokens of one request, some KV heads with their query heads,
// and a range of splits. Its rows are ordered by (KV head, token, query head).
struct AttentionItem {
  const float* query;  // first token, first query head; heads are head_dim apart
  int64_t query_stride;
  int32_t num_tokens;
  int32_t num_kv_heads;
  int32_t group;           // query heads per KV head
  int32_t first_position;  // that of the first token
  int32_t look_ahead;      // positions after its own that a token sees, up to seq_len
  int32_t seq_len;
  const int32_t* seen_ends;  // [num_tokens], or null (PagedAttentionParams)
  const void* key;           // the first KV head in block 0; heads are head_dim * block_size apart
  const void* value;         // null in a latent cache: values are the first dims of the keys
  int64_t block_stride;      // elements
  // [heads] from the first KV head on, or null for all 1.
  const float* key_scale;
  const float* value_scale;
  // The bf16 scales of the first KV head in block 0: blocks are block_stride / 2 apart, heads
  // block_size. Null unless each token has scales of its own.
  const uint16_t* key_token_scale;
  const uint16_t* value_token_scale;
  int32_t block_size;
  int32_t head_dim;
  int32_t value_dim;  // head_dim, or latent_dim in a latent cache
  const int32_t* block_table;
  int32_t sliding_window;
  bool window_is_chunk;
  float scale;
  float soft_cap;
  const float* sinks;          // of the first query head, or null
  const float* alibi_slopes;   // of the first query head, or null
  const float* position_bias;  // of the first query head, or null; heads are bias_stride apart
  int64_t bias_stride;
  int32_t bias_reach;
  int32_t first_split;
  int32_t end_split;
  float* partials;  // null, or gets the raw results of a single split, [row][value_dim + 2]
  float* out;       // gets the finished rows if `partials` is null; heads are value_dim apart
  int64_t out_stride;
  float* scratch;  // attention_scratch_floats(rows, head_dim)
};

// The arguments for folding the partials of an item in ascending order into its finished rows.
struct AttentionCombine {
  const AttentionItem* item;  // its first_split and end_split cover all splits
  const float* partials;      // of the first split: [rows][value_dim + 2]
  int64_t partial_stride;     // floats from split to split
};

// Returns one past the last position that a token of the item sees.
static constexpr int32_t attention_end(const AttentionItem& item, int32_t token) {
  if (item.seen_ends != nullptr) return item.seen_ends[token];
  const int32_t end = item.first_position + token + 1 + item.look_ahead;
  return end < item.seq_len ? end : item.seq_len;
}

struct AttentionKernels {
  int32_t item_rows;  // the most of an item of many tokens: kAttentionRows to kAttentionMaxRows
  void (*item[kNumCacheKinds])(const AttentionItem& item);
  void (*combine)(const AttentionCombine& args);
};

// Returns the most floats of scratch that any kernel needs for an item of `rows` rows.
static constexpr int64_t attention_scratch_floats(int64_t rows, int64_t head_dim) {
  const int64_t d = (head_dim + 31) / 32 * 32;
  const int64_t vectors = rows * (3 * d + 16) + 8 * ((rows + 15) / 16 * 16) +
                          kAttentionStepsInFlight * kAttentionMaxRowBlock * (kAttentionTile + 1) +
                          2 * kAttentionTile * d + kAttentionTile + 64;
  // On tiles the rows of each KV head are padded to 16 if it has that many, which less than doubles
  // them; items of more than kAttentionRows have one head.
  const int64_t slots = (rows < 2 * kAttentionRows ? 2 * kAttentionRows : rows) + 32;
  const int64_t tiles = slots * (3 * d + 4 * kAttentionTile + 35) + kAttentionSplit * (d + 2) + 512;
  return vectors > tiles ? vectors : tiles;
}

}  // namespace quire::cpu
