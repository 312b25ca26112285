// Cuts a batch into units of work of about equal cost, gives them to the threads and combines the
// partial results of split contexts.
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

// A unit costs at most 1 / kUnitsPerThread of a thread's work, if it can be cut that small.
constexpr int64_t kUnitsPerThread = 8;
// Memory is read in runs (neighbouring KV heads of a block) of at least this many bytes, unless
// threads would idle. Shorter runs reach two thirds of the bandwidth.
constexpr int64_t kRunBytes = 8192;
// Partial results have one slot per (token, split). There are slots for kSplitContexts contexts of
// the longest length, plus kSlotsPerThread per thread. Requests for which no slots are left are not
// cut along their context.
constexpr int64_t kSplitContexts = 8;
constexpr int64_t kSlotsPerThread = 64;

int64_t divide_up(int64_t x, int64_t y) { return (x + y - 1) / y; }
int64_t max_item_rows(int64_t group) { return std::max<int64_t>(cpu::kAttentionMaxRows, group); }

// How one request is cut: token blocks x chunks of KV heads (x splits of the context).
struct RequestPlan {
  int64_t first_unit;
  int64_t num_units;
  int64_t unit_cost;   // positions x KV heads
  int64_t first_slot;  // of its partials
  int32_t num_blocks;
  int32_t head_chunk;  // KV heads per unit, the last chunk may have fewer
  int32_t num_chunks;
  int32_t first_split;
  int32_t num_splits;  // 0: a unit does its whole context and writes finished rows
};

struct BatchPlan {
  int32_t group;        // query heads per KV head
  int32_t item_tokens;  // query tokens per unit
  int64_t num_units;
  int64_t scratch_floats;            // per thread
  int64_t slot_floats;               // partials of one token and split, for all heads
  RequestPlan* requests;             // [R], the costliest units first
  int32_t* request_ids;              // [R] in that order
  std::atomic<int32_t>* units_left;  // [R, Hkv] splits still to do of each split (request, chunk)
  float* scratch;
  float* partials;
};

// The layout of a workspace, which computes both its size and its parts.
struct WorkspaceLayout {
  int64_t requests, request_ids, units_left, scratch, partials, bytes;
  WorkspaceLayout(int64_t threads, int64_t max_reqs, int64_t max_seq_len, int64_t num_heads,
                  int64_t item_rows, int64_t head_dim) {
    const auto take = [this](int64_t n) {
      const int64_t at = bytes;
      bytes = cpu::round_up(bytes + n, 64);
      return at;
    };
    bytes = 0;
    requests = take(max_reqs * static_cast<int64_t>(sizeof(RequestPlan)));
    request_ids = take(max_reqs * static_cast<int64_t>(sizeof(int32_t)));
    units_left = take(max_reqs * num_heads * static_cast<int64_t>(sizeof(std::atomic<int32_t>)));
    scratch =
        take(threads * scratch_floats(item_rows, head_dim) * static_cast<int64_t>(sizeof(float)));
    partials = take(threads == 1 ? 0
                                 : num_slots(threads, max_seq_len) * num_heads * (head_dim + 2) *
                                       static_cast<int64_t>(sizeof(float)));
  }
  static int64_t scratch_floats(int64_t rows, int64_t head_dim) {
    return cpu::round_up(cpu::attention_scratch_floats(rows, head_dim), 16);
  }
  static int64_t num_slots(int64_t threads, int64_t max_seq_len) {
    const int64_t splits = divide_up(max_seq_len, kAttentionSplit);
    return splits <= 1 ? 0 : kSplitContexts * splits + kSlotsPerThread * threads;
  }
};

int32_t query_len(const PagedAttentionParams& p, int32_t r) {
  return p.query_start_loc[r + 1] - p.query_start_loc[r];
}

// Returns the position of query token i of request r.
int32_t position_of(const PagedAttentionParams& p, int32_t r, int32_t i) {
  return p.seq_lens[r] - query_len(p, r) + i;
}

// Returns how many positions after its own a token sees, of the seq_lens[r] positions.
int32_t look_ahead(const PagedAttentionParams& p, int32_t r) {
  if (p.causal) return 0;
  return p.sliding_window > 0 ? p.sliding_window - 1 : p.seq_lens[r];
}

// Returns one past the last position that query token i of request r sees.
int32_t seen_end(const PagedAttentionParams& p, int32_t r, int32_t i) {
  if (p.seen_ends != nullptr) return p.seen_ends[p.query_start_loc[r] + i];
  return std::min(position_of(p, r, i) + 1 + look_ahead(p, r), p.seq_lens[r]);
}

// Returns the first position that the token at `position` sees.
int32_t window_begin(const PagedAttentionParams& p, int32_t position) {
  return cpu::attention_begin(p.sliding_window, p.window_is_chunk, position);
}

// Returns item `index` of request `r`, over its whole context. Items are ordered by token block,
// the last and costliest first, and then by chunk of KV heads.
AttentionItem make_item(const PagedAttentionParams& p, const BatchPlan& batch,
                        const RequestPlan& request, int32_t r, int64_t index) {
  const KvCacheView& kv = p.kv;
  const int64_t head = index % request.num_chunks * request.head_chunk;
  const auto first =
      static_cast<int32_t>(request.num_blocks - 1 - index / request.num_chunks) * batch.item_tokens;
  const int64_t token = p.query_start_loc[r] + first;
  const int64_t head_offset = head * kv.head_dim * kv.block_size * size_bytes(kv.dtype);
  AttentionItem item{};
  item.query = p.query + token * p.query_stride + head * batch.group * kv.head_dim;
  item.query_stride = p.query_stride;
  item.num_tokens = std::min(batch.item_tokens, query_len(p, r) - first);
  item.num_kv_heads =
      static_cast<int32_t>(std::min<int64_t>(request.head_chunk, kv.num_kv_heads - head));
  item.group = batch.group;
  item.first_position = position_of(p, r, first);
  item.look_ahead = look_ahead(p, r);
  item.seq_len = p.seq_lens[r];
  item.seen_ends = p.seen_ends == nullptr ? nullptr : p.seen_ends + token;
  item.key = static_cast<const uint8_t*>(kv.key) + head_offset;
  item.value = kv.is_latent() ? nullptr : static_cast<const uint8_t*>(kv.value) + head_offset;
  item.block_stride = kv.block_stride;
  const float* value_scale = kv.is_latent() ? kv.key_scale : kv.value_scale;
  item.key_scale = kv.key_scale == nullptr ? nullptr : kv.key_scale + head;
  item.value_scale = value_scale == nullptr ? nullptr : value_scale + head;
  if (has_token_scales(kv.dtype)) {
    const int64_t at = token_scale_index(kv, 0, head, 0);
    item.key_token_scale = static_cast<const uint16_t*>(kv.key) + at;
    item.value_token_scale = static_cast<const uint16_t*>(kv.is_latent() ? kv.key : kv.value) + at;
  }
  item.block_size = kv.block_size;
  item.head_dim = kv.head_dim;
  item.value_dim = kv.value_dim();
  item.block_table = p.block_table + r * p.max_blocks;
  item.sliding_window = p.sliding_window;
  item.window_is_chunk = p.window_is_chunk;
  item.scale = p.scale;
  item.soft_cap = p.soft_cap;
  item.sinks = p.sinks == nullptr ? nullptr : p.sinks + head * batch.group;
  item.alibi_slopes = p.alibi_slopes == nullptr ? nullptr : p.alibi_slopes + head * batch.group;
  item.out_stride = int64_t{p.num_heads} * item.value_dim;
  item.out = p.out + token * item.out_stride + head * batch.group * item.value_dim;
  item.bias_reach = p.position_bias_reach;
  item.bias_stride = position_bias_stride(p.position_bias_reach);
  if (p.position_bias != nullptr)
    item.position_bias = p.position_bias + head * batch.group * item.bias_stride;
  item.first_split = window_begin(p, item.first_position) / kAttentionSplit;
  item.end_split = (seen_end(p, r, first + item.num_tokens - 1) - 1) / kAttentionSplit + 1;
  return item;
}

// Returns the cost of a request: the positions x KV heads that its queries read, summed over its
// token blocks.
int64_t request_cost(const PagedAttentionParams& p, int32_t r, int32_t item_tokens) {
  const int64_t blocks = divide_up(query_len(p, r), item_tokens);
  const int64_t middle = seen_end(p, r, query_len(p, r) / 2);
  const int64_t seen =
      p.sliding_window > 0 ? std::min<int64_t>(middle, p.sliding_window + item_tokens) : middle;
  return blocks * std::max<int64_t>(seen, 1) * p.kv.num_kv_heads;
}

// Cuts request r until its units cost at most `target`, first along the context and then by KV
// heads. A cut along the context needs slots for partial results, of which `free_slots` are left.
RequestPlan plan_request(const PagedAttentionParams& p, const BatchPlan& batch, int32_t r,
                         int64_t target, int64_t threads, int64_t free_slots) {
  RequestPlan plan{};
  const int64_t rows =
      std::max<int64_t>(1, std::min(batch.item_tokens, query_len(p, r)) * batch.group);
  plan.num_blocks = static_cast<int32_t>(divide_up(query_len(p, r), batch.item_tokens));
  if (plan.num_blocks == 0) return plan;
  const int64_t cost = request_cost(p, r, batch.item_tokens);
  const auto chunk_of = [&](int64_t head_chunk) {
    plan.head_chunk = static_cast<int32_t>(head_chunk);
    plan.num_chunks = static_cast<int32_t>(divide_up(p.kv.num_kv_heads, head_chunk));
    plan.num_units =
        int64_t{plan.num_blocks} * plan.num_chunks * std::max<int32_t>(plan.num_splits, 1);
    plan.unit_cost = cost / plan.num_units;
  };
  chunk_of(std::clamp<int64_t>(kAttentionRows / rows, 1, p.kv.num_kv_heads));
  if (threads > 1 && plan.num_blocks == 1 && plan.unit_cost > target) {
    const int32_t first = window_begin(p, position_of(p, r, 0)) / kAttentionSplit;
    const int32_t splits = (p.seq_lens[r] - 1) / kAttentionSplit + 1 - first;
    if (splits > 1 && int64_t{splits} * query_len(p, r) <= free_slots) {
      plan.first_split = first;
      plan.num_splits = splits;
      chunk_of(plan.head_chunk);
    }
  }
  const int64_t head_run = int64_t{p.kv.block_size} * p.kv.head_dim * size_bytes(p.kv.dtype);
  while (threads > 1 && plan.head_chunk > 1 && plan.unit_cost > target) {
    const int64_t half = divide_up(plan.head_chunk, 2);
    if (half * head_run < kRunBytes && plan.num_units >= threads) break;
    chunk_of(half);
  }
  return plan;
}

// Returns the rows of an item: `wanted`, or fewer if threads would idle.
int64_t item_rows(const PagedAttentionParams& p, int64_t wanted, int64_t threads) {
  const int64_t all = int64_t{p.query_start_loc[p.num_reqs]} * p.num_heads;
  while (wanted > kAttentionRows && all < wanted * threads * kUnitsPerThread) wanted /= 2;
  return wanted;
}

BatchPlan plan_batch(const HostStream& stream, const PagedAttentionParams& p,
                     const cpu::AttentionKernels& kernels) {
  BatchPlan batch{};
  const int64_t threads = stream.team().size();
  batch.group = p.num_heads / p.kv.num_kv_heads;
  batch.item_tokens = static_cast<int32_t>(
      std::max<int64_t>(1, item_rows(p, kernels.item_rows, threads) / batch.group));
  int64_t total = 0;
  int32_t longest = 0;
  for (int32_t r = 0; r < p.num_reqs; ++r) {
    total += request_cost(p, r, batch.item_tokens);
    longest = std::max(longest, p.seq_lens[r]);
  }
  const WorkspaceLayout layout(threads, p.num_reqs, longest, p.num_heads,
                               max_item_rows(batch.group), p.kv.head_dim);
  auto* base = static_cast<uint8_t*>(p.workspace);
  batch.requests = reinterpret_cast<RequestPlan*>(base + layout.requests);
  batch.request_ids = reinterpret_cast<int32_t*>(base + layout.request_ids);
  batch.units_left = reinterpret_cast<std::atomic<int32_t>*>(base + layout.units_left);
  batch.scratch = reinterpret_cast<float*>(base + layout.scratch);
  batch.partials = reinterpret_cast<float*>(base + layout.partials);
  batch.scratch_floats = WorkspaceLayout::scratch_floats(max_item_rows(batch.group), p.kv.head_dim);
  batch.slot_floats = int64_t{p.num_heads} * (p.kv.value_dim() + 2);

  const int64_t target = total / (threads * kUnitsPerThread) + 1;
  const int64_t num_slots = WorkspaceLayout::num_slots(threads, longest);
  int64_t slots = 0;
  for (int32_t r = 0; r < p.num_reqs; ++r) {
    RequestPlan plan = plan_request(p, batch, r, target, threads, num_slots - slots);
    plan.first_slot = slots;
    slots += int64_t{plan.num_splits} * query_len(p, r);
    for (int32_t chunk = 0; plan.num_splits > 0 && chunk < plan.num_chunks; ++chunk) {
      batch.units_left[int64_t{r} * p.kv.num_kv_heads + chunk].store(plan.num_splits,
                                                                     std::memory_order_relaxed);
    }
    batch.requests[r] = plan;
    batch.request_ids[r] = r;
  }
  if (threads > 1) {
    std::sort(batch.request_ids, batch.request_ids + p.num_reqs, [&](int32_t a, int32_t b) {
      const int64_t cost_a = batch.requests[a].unit_cost;
      const int64_t cost_b = batch.requests[b].unit_cost;
      return cost_a != cost_b ? cost_a > cost_b : a < b;
    });
  }
  for (int32_t i = 0; i < p.num_reqs; ++i) {
    RequestPlan& plan = batch.requests[batch.request_ids[i]];
    plan.first_unit = batch.num_units;
    batch.num_units += plan.num_units;
  }
  return batch;
}

// Computes one split of an item. The thread that finishes the item's last split combines them.
void run_split(const PagedAttentionParams& p, const BatchPlan& batch,
               const cpu::AttentionKernels& kernels, AttentionItem item, int32_t r, int64_t unit) {
  const RequestPlan& plan = batch.requests[r];
  const int64_t chunk = unit / plan.num_splits;
  const auto split = static_cast<int32_t>(plan.first_split + unit % plan.num_splits);
  const int64_t token_floats = batch.slot_floats * item.num_tokens;
  const AttentionItem whole = item;
  float* partials = batch.partials + plan.first_slot * batch.slot_floats +
                    chunk * plan.head_chunk * item.num_tokens * item.group * (item.value_dim + 2);
  item.first_split = split;
  item.end_split = split + 1;
  item.partials = partials + (split - plan.first_split) * token_floats;
  kernels.item[cpu::cache_kind(p.kv)](item);
  auto& left = batch.units_left[int64_t{r} * p.kv.num_kv_heads + chunk];
  if (left.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  kernels.combine({.item = &whole, .partials = partials, .partial_stride = token_floats});
}

// Threads take units of work in order by a counter. The results do not depend on which thread takes
// which unit.
void run_units(const PagedAttentionParams& p, const BatchPlan& batch,
               const cpu::AttentionKernels& kernels, std::atomic<int64_t>& next, int thread) {
  const int32_t* ids = batch.request_ids;
  const int32_t* ids_end = batch.request_ids + p.num_reqs;
  while (true) {
    const int64_t unit = next.fetch_add(1, std::memory_order_relaxed);
    if (unit >= batch.num_units) return;
    const int32_t* after = std::upper_bound(ids, ids_end, unit, [&](int64_t u, int32_t id) {
      return u < batch.requests[id].first_unit;
    });
    const int32_t r = *(after - 1);
    const RequestPlan& plan = batch.requests[r];
    const int64_t index = unit - plan.first_unit;
    AttentionItem item =
        make_item(p, batch, plan, r, plan.num_splits > 0 ? index / plan.num_splits : index);
    item.scratch = batch.scratch + thread * batch.scratch_floats;
    if (plan.num_splits > 0) {
      run_split(p, batch, kernels, item, r, index);
    } else {
      kernels.item[cpu::cache_kind(p.kv)](item);
    }
  }
}

}  // namespace

void cpu::paged_attention(Stream& stream, const PagedAttentionParams& params) {
  const HostStream& cpu_stream = cpu::host(stream);
  if (params.num_reqs == 0) return;
  QUIRE_DCHECK(params.scale > 0.0f, "[paged_attention] scale {}", params.scale);
  QUIRE_DCHECK(params.kv.head_dim <= kMaxAttentionHeadDim, "[paged_attention] head_dim {}",
               params.kv.head_dim);
  QUIRE_DCHECK(params.causal || (!params.window_is_chunk && params.seen_ends == nullptr),
               "[paged_attention] chunks or ends of their own without causality");
  QUIRE_DCHECK(
      !params.kv.is_latent() || (params.kv.num_kv_heads == 1 && params.kv.latent_dim % 16 == 0 &&
                                 params.kv.latent_dim <= params.kv.head_dim),
      "[paged_attention] latents of {} in {} heads of {}", params.kv.latent_dim,
      params.kv.num_kv_heads, params.kv.head_dim);
  QUIRE_DCHECK(params.kv.num_kv_heads > 0 && params.num_heads % params.kv.num_kv_heads == 0,
               "[paged_attention] {} query heads, {} KV heads", params.num_heads,
               params.kv.num_kv_heads);
  QUIRE_DCHECK(params.kv.block_size % 8 == 0 && params.workspace != nullptr,
               "[paged_attention] block size {}", params.kv.block_size);
  const cpu::AttentionKernels& kernels = cpu::attention_kernels(cpu_stream.isa(), params.kv.dtype);
  const BatchPlan batch = plan_batch(cpu_stream, params, kernels);
  std::atomic<int64_t> next{0};
  cpu_stream.team().run([&](int thread) { run_units(params, batch, kernels, next, thread); });
}

int64_t cpu::paged_attention_workspace_bytes(const Stream& stream, int64_t max_tokens,
                                             int64_t max_reqs, int64_t max_seq_len,
                                             int32_t num_heads, int32_t head_dim) {
  (void)max_tokens;  // a thread has one item at a time, however many tokens the batch has
  const int64_t threads = cpu::host(stream).team().size();
  // The number of KV heads is not known here, so this assumes the widest group: all heads.
  return WorkspaceLayout(threads, max_reqs, max_seq_len, num_heads, max_item_rows(num_heads),
                         head_dim)
      .bytes;
}

}  // namespace quire
