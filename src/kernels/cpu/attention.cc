// Cuts a batch into work items, hands them out to the threads, combines what was split.
#include "kernels/api/attention.h"

#include <algorithm>
#include <atomic>

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/ops.h"

namespace quire {
namespace {

using cpu::AttentionItem;
using cpu::kAttentionRows;
using cpu::kAttentionSplit;

// Items of at most this many rows may be cut along their context, so that a lone long request can
// use all threads.
constexpr int64_t kSplitRows = 16;
// The context is cut only while there are fewer items than this per thread.
constexpr int64_t kItemsPerThread = 2;

int64_t max_item_rows(int64_t group) { return std::max<int64_t>(kAttentionRows, group); }
int64_t tokens_per_item(int64_t group) { return std::max<int64_t>(1, kAttentionRows / group); }
int64_t max_split_rows(int64_t num_heads) { return std::max(kSplitRows, num_heads); }

struct Shape {
  int32_t group;           // query heads per KV head
  int32_t item_tokens;     // query tokens per item
  int64_t num_items;       // before cutting along the context
  int64_t scratch_floats;  // per thread
  bool split;              // one unit of work is one split, results go to partials
  int64_t max_splits;      // of any request
  int64_t partial_floats;  // per split of an item
  int32_t*
      item_start;  // [R + 1] first (token block) of each request, before multiplying by KV heads
  float* scratch;
  float* partials;
};

// Item `index` without its split range: request by request, token blocks of a request last to first
// (the costliest first, so that the threads finish together), KV heads innermost.
AttentionItem make_item(const PagedAttentionParams& p, const Shape& shape, int64_t index,
                        int32_t* request) {
  const KvCacheView& kv = p.kv;
  const auto block_index = static_cast<int32_t>(index / kv.num_kv_heads);
  const int64_t head = index % kv.num_kv_heads;
  const int32_t* found =
      std::upper_bound(shape.item_start, shape.item_start + p.num_reqs + 1, block_index) - 1;
  const auto r = static_cast<int32_t>(found - shape.item_start);
  *request = r;
  const int32_t query_len = p.query_start_loc[r + 1] - p.query_start_loc[r];
  const int32_t num_blocks = shape.item_start[r + 1] - shape.item_start[r];
  const int32_t first = (num_blocks - 1 - (block_index - shape.item_start[r])) * shape.item_tokens;
  const int64_t token = p.query_start_loc[r] + first;
  const int64_t element = size_bytes(kv.dtype);
  const int64_t head_offset = head * kv.head_dim * kv.block_size * element;
  AttentionItem item{};
  item.query = p.query + token * p.query_stride + head * shape.group * kv.head_dim;
  item.query_stride = p.query_stride;
  item.num_tokens = std::min(shape.item_tokens, query_len - first);
  item.group = shape.group;
  item.first_position = p.seq_lens[r] - query_len + first;
  item.key = static_cast<const uint8_t*>(kv.key) + head_offset;
  item.value = static_cast<const uint8_t*>(kv.value) + head_offset;
  item.block_stride = kv.block_stride;
  item.block_size = kv.block_size;
  item.head_dim = kv.head_dim;
  item.block_table = p.block_table + r * p.max_blocks;
  item.sliding_window = p.sliding_window;
  item.scale = p.scale;
  item.soft_cap = p.soft_cap;
  item.sinks = p.sinks == nullptr ? nullptr : p.sinks + head * shape.group;
  item.out_stride = int64_t{p.num_heads} * kv.head_dim;
  item.out = p.out + token * item.out_stride + head * shape.group * kv.head_dim;
  const int32_t begin = item.sliding_window > 0 ? item.first_position - item.sliding_window + 1 : 0;
  item.first_split = std::max(begin, 0) / kAttentionSplit;
  item.end_split = (item.first_position + item.num_tokens - 1) / kAttentionSplit + 1;
  return item;
}

Shape plan(const HostStream& stream, const PagedAttentionParams& p) {
  Shape shape{};
  const int64_t threads = stream.team().size();
  shape.group = p.num_heads / p.kv.num_kv_heads;
  shape.item_tokens = static_cast<int32_t>(tokens_per_item(shape.group));
  shape.item_start = static_cast<int32_t*>(p.workspace);
  int32_t num_blocks = 0;
  int32_t longest_query = 0;
  int32_t longest_seq = 0;
  for (int32_t r = 0; r < p.num_reqs; ++r) {
    const int32_t query_len = p.query_start_loc[r + 1] - p.query_start_loc[r];
    shape.item_start[r] = num_blocks;
    num_blocks += (query_len + shape.item_tokens - 1) / shape.item_tokens;
    longest_query = std::max(longest_query, query_len);
    longest_seq = std::max(longest_seq, p.seq_lens[r]);
  }
  shape.item_start[p.num_reqs] = num_blocks;
  shape.num_items = int64_t{num_blocks} * p.kv.num_kv_heads;
  shape.scratch_floats =
      cpu::round_up(cpu::attention_scratch_floats(max_item_rows(shape.group), p.kv.head_dim), 16);
  shape.max_splits = (longest_seq + kAttentionSplit - 1) / kAttentionSplit;
  const int64_t rows = int64_t{longest_query} * shape.group;
  shape.split = threads > 1 && shape.max_splits > 1 && rows <= max_split_rows(shape.group) &&
                shape.num_items < kItemsPerThread * threads;
  shape.partial_floats = rows * (p.kv.head_dim + 2);
  const int64_t table_bytes =
      cpu::round_up((int64_t{p.num_reqs} + 1) * int64_t{sizeof(int32_t)}, 64);
  auto* floats = reinterpret_cast<float*>(static_cast<uint8_t*>(p.workspace) + table_bytes);
  shape.scratch = floats;
  shape.partials = floats + threads * shape.scratch_floats;
  return shape;
}

// Units of work are handed out in order by a counter: which thread takes which leaves no trace in
// the results.
void run_items(const PagedAttentionParams& p, const Shape& shape,
               const cpu::AttentionKernels& kernels, std::atomic<int64_t>& next, int thread) {
  const auto attend = kernels.item[cpu::storage_of(p.kv.dtype)];
  float* scratch = shape.scratch + thread * shape.scratch_floats;
  const int64_t num_units = shape.split ? shape.num_items * shape.max_splits : shape.num_items;
  while (true) {
    const int64_t unit = next.fetch_add(1, std::memory_order_relaxed);
    if (unit >= num_units) return;
    int32_t request = 0;
    AttentionItem item =
        make_item(p, shape, shape.split ? unit / shape.max_splits : unit, &request);
    item.scratch = scratch;
    if (shape.split) {
      const auto split = static_cast<int32_t>(unit % shape.max_splits);
      if (split < item.first_split || split >= item.end_split) continue;
      item.first_split = split;
      item.end_split = split + 1;
      item.partials = shape.partials + unit * shape.partial_floats;
    }
    attend(item);
  }
}

void combine_items(const PagedAttentionParams& p, const Shape& shape,
                   const cpu::AttentionKernels& kernels) {
  for (int64_t i = 0; i < shape.num_items; ++i) {
    int32_t request = 0;
    const AttentionItem item = make_item(p, shape, i, &request);
    kernels.combine({.partials = shape.partials +
                                 (i * shape.max_splits + item.first_split) * shape.partial_floats,
                     .partial_stride = shape.partial_floats,
                     .num_splits = item.end_split - item.first_split,
                     .rows = item.num_tokens * item.group,
                     .head_dim = item.head_dim,
                     .group = item.group,
                     .sinks = item.sinks,
                     .out = item.out,
                     .out_stride = item.out_stride,
                     .scratch = shape.scratch});
  }
}

}  // namespace

void cpu::paged_attention(Stream& stream, const PagedAttentionParams& params) {
  const HostStream& cpu_stream = cpu::host(stream);
  if (params.num_reqs == 0) return;
  QUIRE_DCHECK(params.kv.num_kv_heads > 0 && params.num_heads % params.kv.num_kv_heads == 0,
               "[attention] {} query heads, {} KV heads", params.num_heads, params.kv.num_kv_heads);
  QUIRE_DCHECK(params.kv.block_size % 8 == 0 && params.workspace != nullptr,
               "[attention] block size {}", params.kv.block_size);
  const Shape shape = plan(cpu_stream, params);
  const cpu::AttentionKernels& kernels = cpu::attention_kernels(cpu_stream.isa(), params.kv.dtype);
  std::atomic<int64_t> next{0};
  cpu_stream.team().run([&](int thread) { run_items(params, shape, kernels, next, thread); });
  if (shape.split) combine_items(params, shape, kernels);
}

int64_t cpu::paged_attention_workspace_bytes(const Stream& stream, int64_t max_tokens, int64_t max_reqs,
                                        int64_t max_seq_len, int32_t num_heads, int32_t head_dim) {
  (void)max_tokens;  // items are taken one after the other: the batch's size does not matter
  const int64_t threads = cpu::host(stream).team().size();
  // The number of KV heads is not known here: the widest group is all heads, the most items all
  // single heads.
  const int64_t scratch =
      cpu::round_up(cpu::attention_scratch_floats(max_item_rows(num_heads), head_dim), 16) *
      threads;
  const int64_t max_splits = (max_seq_len + kAttentionSplit - 1) / kAttentionSplit;
  const int64_t partials =
      threads == 1 || max_splits <= 1
          ? 0
          : kItemsPerThread * threads * max_splits * max_split_rows(num_heads) * (head_dim + 2);
  return cpu::round_up((max_reqs + 1) * int64_t{sizeof(int32_t)}, 64) +
         (scratch + partials) * int64_t{sizeof(float)};
}

}  // namespace quire
