// Attention as the files compiled per instruction set offer it to attention.cc (see
// kernel_tables.h).
#pragma once

#include <stdint.h>

namespace quire::cpu {

// Positions are cut into tiles and splits at fixed absolute places, so that a row's reduction order
// does not depend on anything but its own position (law L4).
inline constexpr int32_t kAttentionTile = 64;
inline constexpr int32_t kAttentionSplit = 512;
// Rows (KV heads x query tokens x query heads that share a KV head) that an item aims at, and of
// many tokens at most.
inline constexpr int32_t kAttentionRows = 64;
inline constexpr int32_t kAttentionMaxRows = 256;
// Rows whose accumulators are in registers at once, at most.
inline constexpr int32_t kAttentionMaxRowBlock = 8;
// Such groups of rows between their scores and the sum of their values, at most.
inline constexpr int32_t kAttentionStepsInFlight = 3;

// The first position that a query at `position` sees: of the window behind it, or of its chunk.
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

// One work item: consecutive query tokens of one request, some KV heads with their query heads, a
// range of splits. Rows are ordered by (KV head, token, query head).
struct AttentionItem {
  const float* query;  // first token, first query head; heads are head_dim apart
  int64_t query_stride;
  int32_t num_tokens;
  int32_t num_kv_heads;
  int32_t group;           // query heads per KV head
  int32_t first_position;  // of the first token
  int32_t look_ahead;      // positions behind its own that a token sees, of the seq_len there are
  int32_t seq_len;
  const int32_t* seen_ends;  // [num_tokens], or null (PagedAttentionParams)
  const void* key;       // of the first KV head in block 0; heads lie head_dim * block_size apart
  const void* value;     // null in a latent cache: values are the first dims of the keys
  int64_t block_stride;  // elements
  // Of the first KV head: [heads], or null for all 1.
  const float* key_scale;
  const float* value_scale;
  // bf16, of the first KV head in block 0: blocks lie block_stride / 2 apart, heads block_size.
  // Null unless each token has scales of its own.
  const uint16_t* key_token_scale;
  const uint16_t* value_token_scale;
  int32_t block_size;
  int32_t head_dim;
  int32_t value_dim;  // head_dim, or what a latent cache says
  const int32_t* block_table;
  int32_t sliding_window;
  bool window_is_chunk;
  float scale;
  float soft_cap;
  const float* sinks;          // of the first query head, or null
  const float* alibi_slopes;   // of the first query head, or null
  const float* position_bias;  // of the first query head, or null; heads lie bias_stride apart
  int64_t bias_stride;
  int32_t bias_reach;
  int32_t first_split;
  int32_t end_split;
  float* partials;  // not null: raw results of the one split go here, [row][value_dim + 2]
  float* out;       // else the finished rows; heads are value_dim apart
  int64_t out_stride;
  float* scratch;  // attention_scratch_floats(rows, head_dim)
};

// Folds the partials of an item in ascending order and writes its finished rows.
struct AttentionCombine {
  const AttentionItem* item;  // first_split, end_split: all of them
  const float* partials;      // of the first split: [rows][value_dim + 2]
  int64_t partial_stride;     // floats from split to split
};

// One past the last position that a token of the item sees.
static constexpr int32_t attention_end(const AttentionItem& item, int32_t token) {
  if (item.seen_ends != nullptr) return item.seen_ends[token];
  const int32_t end = item.first_position + token + 1 + item.look_ahead;
  return end < item.seq_len ? end : item.seq_len;
}

struct AttentionKernels {
  int32_t item_rows;  // of many tokens: from kAttentionRows to kAttentionMaxRows
  void (*item[kNumCacheKinds])(const AttentionItem& item);
  void (*combine)(const AttentionCombine& args);
};

// What an item of so many rows needs at most, of any kernel.
static constexpr int64_t attention_scratch_floats(int64_t rows, int64_t head_dim) {
  const int64_t d = (head_dim + 31) / 32 * 32;
  const int64_t vectors = rows * (3 * d + 16) + 8 * ((rows + 15) / 16 * 16) +
                          kAttentionStepsInFlight * kAttentionMaxRowBlock * (kAttentionTile + 1) +
                          2 * kAttentionTile * d + kAttentionTile + 64;
  // Tiles: the rows of each KV head are padded to 16 where there are that many, which adds less
  // than as many again; items of more than kAttentionRows have one head.
  const int64_t slots = (rows < 2 * kAttentionRows ? 2 * kAttentionRows : rows) + 32;
  const int64_t tiles = slots * (3 * d + 4 * kAttentionTile + 35) + kAttentionSplit * (d + 2) + 512;
  return vectors > tiles ? vectors : tiles;
}

}  // namespace quire::cpu
