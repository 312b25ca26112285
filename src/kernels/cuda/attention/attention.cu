// paged_attention() on a GPU: cuts the batch (once per step), attends, and combines splits.
#include <algorithm>
#include <bit>

#include "kernels/cuda/attention/attention_kernels.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ops.h"

namespace quire::cuda {
namespace {

constexpr int64_t kMaxPartialBytes = int64_t{256} << 20;
constexpr int64_t kBlocksPerSmOfAnyStep = 8;

int64_t round_up(int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; }

AttentionWay way_of(const Stream& stream, const KvCacheView& kv) {
  return attention_way(
      {.head_dim = kv.head_dim, .latent_dim = kv.latent_dim, .is_fp8 = kv.dtype == DType::kF8E4M3},
      gpu(stream).info().shared_bytes_per_block);
}

PrefillShape prefill_shape_of(const Stream& stream, AttentionWay way, int head_dim) {
  if (way == AttentionWay::kPlain) return {};
  if (way == AttentionWay::kWide) return wide_prefill_shape(stream);
  return gpu(stream).warpgroup_products() ? warpgroup_prefill_shape(stream, head_dim)
                                          : prefill_shape(stream, head_dim);
}

int64_t total_bytes(const Stream& stream, AttentionWay way, int head_dim) {
  if (!gpu(stream).deterministic()) return 0;
  return prefill_shape_of(stream, way, head_dim).total_floats * int64_t{sizeof(float)};
}

int64_t partial_row_bytes(int32_t num_kv_heads, int32_t value_dim) {
  return int64_t{num_kv_heads} * (value_dim + 2) * int64_t{sizeof(float)};
}

AttentionArgs make_args(const Stream& stream, AttentionWay way, const PagedAttentionParams& p) {
  const KvCacheView& kv = p.kv;
  AttentionArgs args;
  args.query = static_cast<const bfloat16*>(p.query.data());
  args.query_stride = p.query_stride;
  args.key = static_cast<const uint8_t*>(kv.key);
  // A latent cache has no values: they are the first dims of keys.
  args.value = static_cast<const uint8_t*>(kv.is_latent() ? kv.key : kv.value);
  args.is_fp8 = kv.dtype == DType::kF8E4M3;
  args.key_scale = args.is_fp8 ? kv.key_scale : nullptr;
  const float* const value_scale = kv.is_latent() ? kv.key_scale : kv.value_scale;
  args.value_scale = args.is_fp8 ? value_scale : nullptr;
  args.block_stride = kv.block_stride;
  args.block_shift = std::countr_zero(static_cast<uint32_t>(kv.block_size));
  args.num_kv_heads = kv.num_kv_heads;
  args.head_dim = kv.head_dim;
  args.value_dim = kv.value_dim();
  args.is_latent = kv.is_latent();
  args.query_start_loc = p.query_start_loc;
  args.seq_lens = p.seq_lens;
  args.block_table = p.block_table;
  args.max_blocks = p.max_blocks;
  args.num_reqs = p.num_reqs;
  args.scale = p.scale;
  args.soft_cap = p.soft_cap;
  args.alibi_slopes = p.alibi_slopes;
  args.sinks = p.sinks;
  args.out = static_cast<bfloat16*>(p.out.data());
  args.fold_splits = gpu(stream).deterministic();
  const int64_t totals = total_bytes(stream, way, kv.head_dim);
  args.totals = static_cast<float*>(p.workspace);
  args.partials = reinterpret_cast<float*>(static_cast<uint8_t*>(p.workspace) + totals);
  args.cut = {.group = p.num_heads / kv.num_kv_heads,
              .sliding_window = p.sliding_window,
              .window_is_chunk = p.window_is_chunk && p.sliding_window > 0,
              .split_size = decode_split(gpu(stream).deterministic(), p.num_reqs, kv.num_kv_heads),
              .prefill_rows = prefill_shape_of(stream, way, kv.head_dim).item_rows,
              .max_partial_rows = (p.workspace_bytes - totals) /
                                  partial_row_bytes(kv.num_kv_heads, args.value_dim)};
  const bool may_pack = way == AttentionWay::kTensorCores && p.cut_has_one_table && p.num_reqs > 1;
  const int32_t rows = pack_rows(kv.head_dim, args.is_fp8);
  if (may_pack && 2 * args.cut.group <= rows) args.cut.pack_rows = rows;
  args.lists = cut_lists(p.batch_cut, p.num_reqs);
  args.is_cut = p.batch_is_cut;
  return args;
}

void check(const Stream& stream, AttentionWay way, const PagedAttentionParams& p) {
  const KvCacheView& kv = p.kv;
  const bool is_fp8 = kv.dtype == DType::kF8E4M3;
  QUIRE_CHECK(kv.order == KvOrder::kTokenMajor,
              "[attention] a GPU wants a token-major cache, got one in the CPU's order");
  QUIRE_CHECK((kv.dtype == DType::kBF16 || is_fp8) && p.query.dtype() == DType::kBF16 &&
                  p.out.dtype() == DType::kBF16,
              "[attention] a GPU wants bf16 queries and outputs and a bf16 or e4m3 cache, got {} "
              "queries, {} outputs and a {} cache",
              to_string(p.query.dtype()), to_string(p.out.dtype()), to_string(kv.dtype));
  const bool tensor_cores = way != AttentionWay::kPlain;
  const int32_t unit = tensor_cores ? (is_fp8 ? 16 : 8) : 2;  // rows of 16 bytes, or of pairs
  const int32_t most = kv.is_latent() ? kMaxAttentionHeadDim : kMaxHeadDim;
  QUIRE_CHECK(kv.head_dim % unit == 0 && kv.value_dim() % unit == 0 && kv.head_dim <= most &&
                  p.query_stride % (tensor_cores ? 8 : 2) == 0,
              "[attention] head_dim {} (at most {}), query stride {}: expected multiples of {}",
              kv.head_dim, most, p.query_stride, unit);
  QUIRE_CHECK(std::has_single_bit(static_cast<uint32_t>(kv.block_size)) && kv.block_size >= 8 &&
                  kv.block_stride % unit == 0,
              "[attention] blocks of {} tokens: expected a power of two from 8", kv.block_size);
  QUIRE_CHECK(p.num_heads % kv.num_kv_heads == 0 && p.batch_cut != nullptr,
              "[attention] {} query heads, {} KV heads", p.num_heads, kv.num_kv_heads);
  QUIRE_CHECK(p.workspace_bytes >= total_bytes(stream, way, kv.head_dim) || !tensor_cores,
              "[attention] a workspace of {} bytes: expected {} and room for partial sums",
              p.workspace_bytes, total_bytes(stream, way, kv.head_dim));
  QUIRE_CHECK(p.causal && p.position_bias == nullptr && p.seen_ends == nullptr,
              "[attention] a GPU runs causal attention alone");
}

}  // namespace

void paged_attention(Stream& stream, const PagedAttentionParams& params) {
  if (params.num_reqs == 0) return;
  const AttentionWay way = way_of(stream, params.kv);
  check(stream, way, params);
  const AttentionArgs args = make_args(stream, way, params);
  if (way == AttentionWay::kPlain) return launch_plain_attention(stream, args);
  if (!params.batch_is_cut) launch_attention_cut(stream, args);
  const int64_t max_splits =
      max_decode_splits(args.cut, params.max_blocks * params.kv.block_size);  // of one request
  const int32_t group = args.cut.group;
  const int32_t max_rows = params.max_query_len == 1 ? group : std::max(group, kDecodeRows);
  const int64_t row_tiles = (max_rows + kDecodeRows - 1) / kDecodeRows;
  int64_t max_items = params.num_reqs * row_tiles * max_splits * params.kv.num_kv_heads;
  // A graph for steps of any size is launched for more requests and splits than most steps have. So
  // it has fewer blocks, which take several items each, instead of many without any.
  if (params.max_query_len == 0)
    max_items = std::min(max_items, gpu(stream).info().num_sms * kBlocksPerSmOfAnyStep);
  if (way == AttentionWay::kWide) {
    launch_wide_decode_attention(stream, args, max_items);
  } else {
    launch_decode_attention(stream, args, max_rows, max_items);
  }
  if (max_splits > 1) launch_combine_attention(stream, args, max_rows);
  // A request of one token always decodes if the partial sums fit.
  const int64_t total_splits =
      max_total_splits(args.cut, params.num_reqs, max_splits, params.total_len);
  const bool all_decode =
      params.max_query_len == 1 && total_splits * group <= args.cut.max_partial_rows;
  if (all_decode) return;
  if (way == AttentionWay::kWide) return launch_wide_prefill_attention(stream, args);
  if (gpu(stream).warpgroup_products()) return launch_warpgroup_prefill_attention(stream, args);
  launch_prefill_attention(stream, args);
}

int64_t paged_attention_cut_bytes(const Stream& /*stream*/, int64_t max_reqs) {
  return attention_cut_bytes(max_reqs);
}

int64_t paged_attention_workspace_bytes(const Stream& stream, int64_t max_tokens, int64_t max_reqs,
                                        int64_t max_seq_len, int32_t num_heads, int32_t head_dim) {
  // It is not known here whether heads of so many dims are latents.
  if (head_dim % 8 != 0) return 0;
  const int least_split = gpu(stream).deterministic() ? kDeterministicSplit : kLeastSplit;
  const int64_t splits = max_decode_splits({.split_size = least_split}, max_seq_len);
  // Rows of decode items over all KV heads: one token each, or up to 16 packed rows per KV head.
  const int64_t rows = std::min(max_tokens, max_reqs * kDecodeRows) * num_heads;
  const int64_t bytes = rows * splits * (head_dim + 2) * int64_t{sizeof(float)};
  int64_t totals = total_bytes(stream, AttentionWay::kWide, head_dim);
  if (fits_tensor_cores(head_dim, false))
    totals = std::max(totals, total_bytes(stream, AttentionWay::kTensorCores, head_dim));
  return totals + round_up(std::min(bytes, kMaxPartialBytes), 256);
}

}  // namespace quire::cuda
