// Attention for heads and latents that the tensor core kernels do not support (attention_way()). A
// block has one query row, of any even number of dims, and walks the tiles of 64 positions that it
// sees in ascending order, in prefill and decode alike. So a row has the same bits however its
// request is cut (law L4). Each KV head is read once for each of its query heads.
#include "kernels/cuda/attention/attention_kernels.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ops.h"

namespace quire::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kBlocksPerSm = 8;
constexpr int kMaxDims = kMaxAttentionHeadDim;
constexpr int kPairs = (kMaxDims / 2 + kThreads - 1) / kThreads;  // pairs of dims per thread

// The layout of shared memory.
struct PlainMemory {
  float query[kMaxDims];
  float scores[kAttentionTile];  // in units of log2
};

// A block's work.
struct PlainRow {
  AttentionItem item;
  int64_t token = 0;  // in the batch
  int32_t head = 0;
  int32_t position = 0;
};

QUIRE_DEVICE PlainRow find_row(const AttentionArgs& args, int32_t token, int32_t head) {
  const int32_t request = find_request_by_warp(args.query_start_loc, args.num_reqs, token);
  const int32_t row = (token - args.query_start_loc[request]) * args.cut.group;
  PlainRow found;
  found.item = make_item(args, request, head / args.cut.group, row, args.cut.group);
  found.token = token;
  found.head = head;
  found.position = found.item.end - 1;
  return found;
}

// Returns the offset of a position's row in the cache, in elements.
QUIRE_DEVICE int64_t cache_row(const AttentionArgs& args, const AttentionItem& item,
                               int32_t position) {
  const int64_t block = item.block_table[position >> args.block_shift];
  const int64_t offset = position & ((1 << args.block_shift) - 1);
  return block * args.block_stride +
         ((int64_t{item.kv_head} << args.block_shift) + offset) * args.head_dim;
}

template <bool kFp8>
QUIRE_DEVICE void load_pair(const uint8_t* cache, int64_t at, float (&pair)[2]) {
  if constexpr (kFp8) {
    pair[0] = widen_e4m3(cache[at]);
    pair[1] = widen_e4m3(cache[at + 1]);
  } else {
    load<2>(reinterpret_cast<const bfloat16*>(cache) + at, pair);
  }
}

// Computes the scores of a tile. Every warp takes some positions, one after the other.
template <bool kFp8>
QUIRE_DEVICE void score_tile(const AttentionArgs& args, const PlainRow& row, int32_t first,
                             PlainMemory& memory) {
  const int lane = ptx::thread_index() % 32;
  const float factor = score_factor(args, row.item);
  for (int i = ptx::thread_index() / 32; i < kAttentionTile; i += kWarps) {
    const int32_t position = first + i;
    float score = -ptx::infinity();
    if (position >= row.item.begin && position <= row.position) {  // the same for the whole warp
      const int64_t key = cache_row(args, row.item, position);
      float sum = 0.0f;
      for (int d = lane * 2; d < args.head_dim; d += 64) {
        float pair[2];
        load_pair<kFp8>(args.key, key + d, pair);
        sum = ptx::multiply_add(memory.query[d], pair[0], sum);
        sum = ptx::multiply_add(memory.query[d + 1], pair[1], sum);
      }
      const float dot = warp_sum(sum);
      score = changes_scores(args)
                  ? changed_score(args, row.item, row.head, row.position - position, dot)
                  : ptx::multiply(dot, factor);
    }
    if (lane == 0) memory.scores[i] = score;
  }
}

// The sums of a thread's pairs of dims, and the state of the row's softmax.
struct PlainSums {
  float sums[kPairs][2] = {};
  float maximum = -ptx::infinity();
  float weight = 0.0f;
};

template <bool kFp8>
QUIRE_DEVICE void add_tile(const AttentionArgs& args, const PlainRow& row, int32_t first,
                           const PlainMemory& memory, PlainSums& sums) {
  const int lane = ptx::thread_index() % 32;
  const float seen = warp_max(ptx::max(memory.scores[lane], memory.scores[lane + 32]));
  const float maximum = ptx::max(sums.maximum, seen);
  const float base = finite_maximum(maximum);
  const float shrink = ptx::exp2_fast(ptx::add(sums.maximum, -base));
  sums.maximum = maximum;
  sums.weight = ptx::multiply(sums.weight, shrink);
#pragma unroll
  for (auto& pair : sums.sums) {
    pair[0] = ptx::multiply(pair[0], shrink);
    pair[1] = ptx::multiply(pair[1], shrink);
  }
  const int32_t begin = row.item.begin > first ? row.item.begin - first : 0;
  const int32_t end = row.position + 1 - first;
  for (int32_t i = begin; i < (end < kAttentionTile ? end : kAttentionTile); ++i) {
    const float weight = softmax_weight(memory.scores[i], 1.0f, base);
    const int64_t value = cache_row(args, row.item, first + i);
    sums.weight = ptx::add(sums.weight, weight);
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
      const int d = (ptx::thread_index() + p * kThreads) * 2;
      if (d >= args.value_dim) continue;
      float pair[2];
      load_pair<kFp8>(args.value, value + d, pair);
      sums.sums[p][0] = ptx::multiply_add(weight, pair[0], sums.sums[p][0]);
      sums.sums[p][1] = ptx::multiply_add(weight, pair[1], sums.sums[p][1]);
    }
  }
}

template <bool kFp8>
QUIRE_DEVICE void attend_row(const AttentionArgs& args, const PlainRow& row, PlainMemory& memory) {
  const bfloat16* query =
      args.query +
      (row.item.first_token + row.item.first_row / args.cut.group) * args.query_stride +
      int64_t{row.head} * args.head_dim;
  ptx::sync_threads();  // the last row's memory is no longer read
  for (int d = ptx::thread_index(); d < args.head_dim; d += kThreads)
    memory.query[d] = widen(query[d]);
  ptx::sync_threads();
  PlainSums sums;
  const int32_t first_tile = row.item.begin / kAttentionTile;
  for (int32_t tile = first_tile; tile <= row.position / kAttentionTile; ++tile) {
    score_tile<kFp8>(args, row, tile * kAttentionTile, memory);
    ptx::sync_threads();
    add_tile<kFp8>(args, row, tile * kAttentionTile, memory, sums);
    ptx::sync_threads();
  }
  const Finish finish = finish_row(args, row.head, sums.maximum, sums.weight);
  const int64_t num_heads = int64_t{args.num_kv_heads} * args.cut.group;
  bfloat16* out = args.out + (row.token * num_heads + row.head) * args.value_dim;
#pragma unroll
  for (int p = 0; p < kPairs; ++p) {
    const int d = (ptx::thread_index() + p * kThreads) * 2;
    if (d >= args.value_dim) continue;
    store<2>(out + d, {finished(finish, sums.sums[p][0]), finished(finish, sums.sums[p][1])});
  }
}

template <bool kFp8>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, kBlocksPerSm) plain_kernel(const AttentionArgs args) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  auto& memory = *reinterpret_cast<PlainMemory*>(ptx::shared_memory());
  const int32_t num_heads = args.num_kv_heads * args.cut.group;
  const int64_t num_rows = int64_t{args.query_start_loc[args.num_reqs]} * num_heads;
  for (int64_t i = ptx::block_index(); i < num_rows; i += ptx::num_blocks()) {
    const auto token = static_cast<int32_t>(i / num_heads);
    attend_row<kFp8>(args, find_row(args, token, static_cast<int32_t>(i % num_heads)), memory);
  }
}

}  // namespace

void launch_plain_attention(Stream& stream, const AttentionArgs& args) {
  const LaunchShape shape{.num_blocks = gpu(stream).info().num_sms * kBlocksPerSm,
                          .num_threads = kThreads,
                          .shared_bytes = sizeof(PlainMemory)};
  if (args.is_fp8) return launch<plain_kernel<true>>(stream, shape, args);
  launch<plain_kernel<false>>(stream, shape, args);
}

}  // namespace quire::cuda
