// How attention cuts a batch into work, as arithmetic on plain numbers.
//
// The query rows of one request and KV head are its tokens times the query heads that share the KV
// head ("packed rows": row = token * group + head in group). Positions are cut into tiles of 64 and
// splits of split_size, both at absolute positions.
//
//   decode:  there are few rows, so the context is cut: one item = 16 rows x 1 split; its partial
//            sums are combined over the splits in ascending order
//   prefill: there are many rows: one item = tile_rows rows over the whole context
//
// Every decode item reads at most split_size positions, so a flat list of items over all requests
// is balanced for any mix of lengths. If requests of one token each have the same blocks at the
// positions of a split, one item may have the rows of several of them: a "pack" of requests
// (attention_sharing.h). Items of packs come first in the list.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/attention/attention_memory.h"
#include "kernels/cuda/device_code.h"

namespace quire::cuda {

inline constexpr int kAttentionTile = 64;  // positions
inline constexpr int kDecodeRows = 16;     // packed rows of a decode item
// Returns the packed rows of an item of a pack. 0: there are no packs, because the expansion of
// codes leaves no registers for them. Wide heads need the registers that more rows would take.
inline constexpr int pack_rows(int head_dim, bool is_fp8) {
  return is_fp8 ? 0 : head_dim > 128 ? 16 : 32;
}

// Positions of a split. Small splits fill a GPU even with one request; large ones leave less to
// fold (both save some percent of the time with 512). If bits must not depend on the batch, one
// size is used for all.
inline constexpr int kLeastSplit = 256;
inline constexpr int kDeterministicSplit = 512;
inline constexpr int kMostSplit = 1024;
inline bool has_few_readers(int64_t num_reqs, int64_t num_kv_heads) {
  return num_reqs * num_kv_heads <= 16;
}
inline int decode_split(bool deterministic, int64_t num_reqs, int64_t num_kv_heads) {
  if (deterministic) return kDeterministicSplit;
  if (has_few_readers(num_reqs, num_kv_heads)) return kLeastSplit;
  return num_reqs * num_kv_heads < 512 ? 512 : kMostSplit;
}

// Returns the head dim that the kernels are compiled for; smaller heads are padded with zeros.
inline constexpr int padded_head_dim(int head_dim) {
  return head_dim <= 64 ? 64 : head_dim <= 128 ? 128 : 256;
}

// The properties of a batch that the cut depends on, beside each request's own numbers.
struct AttentionCut {
  int32_t group = 1;  // query heads per KV head
  int32_t sliding_window = 0;
  bool window_is_chunk = false;  // sequences are cut into windows; a query sees only its own window
  int32_t split_size = kDeterministicSplit;
  int32_t prefill_rows = 128;    // packed rows of a prefill item
  int64_t max_partial_rows = 0;  // rows of partial sums that fit the workspace, per KV head
  int32_t pack_rows = 0;         // packed rows of an item of several requests; 0: there are none
};

struct RequestCut {
  int32_t rows = 0;         // packed rows per KV head
  int32_t first_split = 0;  // the first split that any row sees
  int32_t num_splits = 0;
  bool may_decode = false;

  QUIRE_HOST_DEVICE int32_t decode_items() const {
    return (rows + kDecodeRows - 1) / kDecodeRows * num_splits;
  }
  // Returns the number of rows of partial sums; a request with a single split needs none.
  QUIRE_HOST_DEVICE int32_t partial_rows() const { return num_splits > 1 ? rows * num_splits : 0; }
  QUIRE_HOST_DEVICE int32_t prefill_items(const AttentionCut& cut) const {
    return (rows + cut.prefill_rows - 1) / cut.prefill_rows;
  }
};

// Returns the first position that a query at `position` sees.
QUIRE_HOST_DEVICE inline int32_t first_visible(const AttentionCut& cut, int32_t position) {
  if (cut.window_is_chunk) return position - position % cut.sliding_window;
  const int32_t begin = cut.sliding_window > 0 ? position - cut.sliding_window + 1 : 0;
  return begin > 0 ? begin : 0;
}

QUIRE_HOST_DEVICE inline RequestCut cut_request(const AttentionCut& cut, int32_t query_len,
                                                int32_t seq_len) {
  RequestCut request;
  if (query_len <= 0) return request;  // padding of a captured graph
  request.rows = query_len * cut.group;
  request.first_split = first_visible(cut, seq_len - query_len) / cut.split_size;
  request.num_splits = (seq_len - 1) / cut.split_size + 1 - request.first_split;
  request.may_decode = query_len == 1 || request.rows <= kDecodeRows;
  return request;
}

// Returns an upper bound of the splits of a decoding request with at most max_len positions.
inline int64_t max_decode_splits(const AttentionCut& cut, int64_t max_len) {
  const int64_t all = (max_len - 1) / cut.split_size + 1;
  if (cut.sliding_window == 0) return all;
  // The rows see up to window + tokens - 1 positions, which may begin anywhere in a split.
  return std::min<int64_t>(all, (cut.sliding_window + kDecodeRows) / cut.split_size + 2);
}

// Returns an upper bound of the splits of `num_reqs` requests of one token each together, if each
// has at most `max_splits`. `total_len` is at least the sum of their lengths, or 0 if that is not
// known.
inline int64_t max_total_splits(const AttentionCut& cut, int64_t num_reqs, int64_t max_splits,
                                int64_t total_len) {
  const int64_t all = num_reqs * max_splits;
  return total_len == 0 ? all : std::min(all, total_len / cut.split_size + num_reqs);
}

// Splits [begin, end).
struct SplitRange {
  int32_t begin = 0;
  int32_t end = 0;
  QUIRE_HOST_DEVICE int32_t count() const { return end > begin ? end - begin : 0; }
};
// Returns the splits in which a request of one token sees every position, except the last split,
// which contains the token itself.
QUIRE_HOST_DEVICE inline SplitRange whole_splits(const AttentionCut& cut, int32_t seq_len) {
  const int32_t first = first_visible(cut, seq_len - 1);
  return {(first + cut.split_size - 1) / cut.split_size, (seq_len - 1) / cut.split_size};
}

// The lists of a cut, in memory of attention_cut_bytes(). The first three are prefix sums over the
// requests: request r begins at entry r. Items of packs come first, so decode_items[0] is their
// number. If there are no decode items, prefill items or partial rows, lists that describe them are
// undefined.
struct CutLists {
  int32_t* decode_items = nullptr;   // [R + 1]
  int32_t* prefill_items = nullptr;  // [R + 1]
  int32_t* partial_rows = nullptr;   // [R + 1]
  SplitRange* packed = nullptr;      // [R], the splits of each request that items of packs read
  int32_t* pack_items = nullptr;     // [P + 1], prefix sums over the packs
  int32_t* pack_begins = nullptr;    // [P + 1], prefix sums over the packs of their requests
  int32_t* pack_requests = nullptr;  // the requests of each pack, one pack after another
  int32_t* num_packs = nullptr;      // P; each pack has at least two requests
};
QUIRE_HOST_DEVICE inline CutLists cut_lists(void* memory, int32_t num_reqs) {
  auto* first = static_cast<int32_t*>(memory);
  const int32_t stride = num_reqs + 1;
  return {first,
          first + stride,
          first + 2 * stride,
          reinterpret_cast<SplitRange*>(first + 3 * stride),
          first + 5 * stride,
          first + 6 * stride,
          first + 7 * stride,
          first + 8 * stride};
}
inline int64_t attention_cut_bytes(int64_t max_reqs) {
  return (8 * (max_reqs + 1) + 1) * static_cast<int64_t>(sizeof(int32_t));
}

// Returns the request r with starts[r] <= item < starts[r + 1].
QUIRE_HOST_DEVICE inline int32_t find_request(const int32_t* starts, int32_t num_reqs,
                                              int32_t item) {
  int32_t low = 0;
  int32_t high = num_reqs;  // starts[low] <= item < starts[high]
  while (high - low > 1) {
    const int32_t middle = (low + high) / 2;
    (starts[middle] <= item ? low : high) = middle;
  }
  return low;
}

}  // namespace quire::cuda
