#include "nn/rank_share.h"

#include <algorithm>

namespace quire {
namespace {

// Kernels work on panels of 32 outputs and read the scales of quantized blocks for 128 rows at
// once. Returns the widest runs of these widths that ranks can share evenly, else the widest that
// give each rank at least one.
int64_t run_of(int64_t count, int64_t num_ranks) {
  for (const int64_t run : {128, 64, 32}) {
    if (count % (run * num_ranks) == 0) return run;
  }
  int64_t run = 32;
  while (run > 1 && (count % run != 0 || count / run < num_ranks)) run /= 2;
  return run;
}

RowRange split(int64_t count, int64_t run, const RankShare& share) {
  const int64_t runs = count / run;
  return {runs * share.rank / share.num_ranks * run,
          runs * (share.rank + 1) / share.num_ranks * run};
}

Status check_experts(const DecoderSpec& whole, const RankShare& share) {
  if (!whole.has_experts())
    return invalid_argument("--enable-expert-parallel: expected a model with experts");
  for (size_t i = 0; i < whole.layers.size(); ++i) {
    const ExpertsSpec& experts = whole.layers[i].ffn.experts;
    if (!experts.any()) continue;
    const int64_t num_experts = experts.router.num_experts;
    if (num_experts < share.num_ranks) {
      return invalid_argument(
          "--enable-expert-parallel: layer {} has {} experts; expected at most as many ranks, got "
          "{}",
          i, num_experts, share.num_ranks);
    }
    const int64_t most = num_experts * (share.num_ranks - 1);
    if (!share.is_whole() &&
        (share.num_redundant_experts < 0 || share.num_redundant_experts > most)) {
      return invalid_argument(
          "--eplb-config: num_redundant_experts: layer {} has {} experts on {} ranks; expected 0 "
          "to "
          "{} copies, got {}",
          i, num_experts, share.num_ranks, most, share.num_redundant_experts);
    }
  }
  return {};
}

RowRange times(const RowRange& range, int64_t factor, int64_t first) {
  return {first + range.begin * factor, first + range.end * factor};
}

}  // namespace

RowRange RankShare::outputs(int64_t count) const {
  return split(count, run_of(count, num_ranks), *this);
}

RowRange RankShare::expert_slots(int64_t num_experts) const {
  return split(num_expert_slots(num_experts), 1, *this);
}

// With R ranks, k experts per token and rows of B bytes, a rank receives k (R - 1) / R rows per
// token by all-gather. By all-to-all it receives 1 / R of that, and (R - 1) / R of a row with the
// sums.
bool RankShare::combines_by_all_to_all(int64_t experts_per_token) const {
  if (combine != ExpertCombine::kFewerBytes) return combine == ExpertCombine::kAllToAll;
  return experts_per_token + num_ranks < experts_per_token * num_ranks;
}

RowRange HeadShare::q_rows(const AttentionSpec& whole) const {
  return times(heads, whole.head_dim, 0);
}

RowRange HeadShare::k_rows(const AttentionSpec& whole) const {
  return times(kv_heads, whole.head_dim, 0);
}

std::vector<RowRange> HeadShare::qkv_rows(const AttentionSpec& whole) const {
  std::vector<RowRange> rows = {q_rows(whole)};
  int64_t end = whole.q_rows();
  const auto add = [&](const RowRange& range, int64_t size) {
    rows.push_back(times(range, whole.head_dim, end));
    end += size;
  };
  if (whole.has_own_kv()) {
    add(kv_heads, whole.kv_rows());  // keys
    add(kv_heads, whole.kv_rows());  // values
  }
  if (whole.has_output_gate) add(heads, whole.q_rows());
  return rows;
}

bool cuts_heads(const AttentionSpec& attention, const RankShare& share) {
  return !share.is_whole() && attention.any() && !attention.latent.any() &&
         attention.qk_norm != QkNorm::kAllHeads && !attention.has_output_norm;
}

HeadShare share_of(const AttentionSpec& attention, const RankShare& share) {
  const int64_t heads = attention.num_heads, kv_heads = attention.num_kv_heads;
  if (!cuts_heads(attention, share)) return {{0, heads}, {0, kv_heads}};
  const int64_t heads_per_kv = heads / kv_heads;
  if (kv_heads >= share.num_ranks) {
    const RowRange own = split(kv_heads, 1, share);
    return {times(own, heads_per_kv, 0), own};
  }
  // Several ranks use the same KV head, and each stores a copy.
  const int64_t kv_head = share.rank / (share.num_ranks / kv_heads);
  return {split(heads, 1, share), {kv_head, kv_head + 1}};
}

Status check_ranks(const DecoderSpec& whole, const RankShare& share) {
  const int32_t num_ranks = share.num_ranks;
  if (share.whole_experts) QUIRE_RETURN_IF_ERROR(check_experts(whole, share));
  if (num_ranks == 1) return {};
  if (whole.relative_bias.any()) {
    return unimplemented(
        "--tensor-parallel-size: expected 1 for a model with biases by distance, got {}",
        num_ranks);
  }
  if (whole.has_shared_blocks()) {
    return unimplemented(
        "--tensor-parallel-size: expected 1 for a model whose layers share a block, got {}",
        num_ranks);
  }
  if (whole.cross.any()) {
    return unimplemented(
        "--tensor-parallel-size: expected 1 for a model that attends to the output of an encoder, "
        "got {}",
        num_ranks);
  }
  for (size_t i = 0; i < whole.layers.size(); ++i) {
    const LayerSpec& layer = whole.layers[i];
    const AttentionSpec& attention = layer.attention;
    if (layer.ffn.has_inner_norm) {
      return unimplemented(
          "--tensor-parallel-size: expected 1 for a model with norms inside its MLPs (layer {}), "
          "got {}",
          i, num_ranks);
    }
    if (layer.ffn.gate_cut) {
      return unimplemented(
          "--tensor-parallel-size: expected 1 for a model with sparse MLPs (layer {}), got {}", i,
          num_ranks);
    }
    if (!cuts_heads(attention, {0, num_ranks}) || attention.num_kv_heads >= num_ranks) continue;
    if (num_ranks % attention.num_kv_heads != 0 || attention.num_heads % num_ranks != 0) {
      return invalid_argument(
          "--tensor-parallel-size: layer {} has {} query heads and {} KV heads; expected at most "
          "{} ranks, or a multiple of them that divides the query heads, got {}",
          i, attention.num_heads, attention.num_kv_heads, attention.num_kv_heads, num_ranks);
    }
  }
  return {};
}

DecoderSpec share_of(const DecoderSpec& whole, const RankShare& share) {
  DecoderSpec own = whole;
  if (share.is_whole()) return own;
  for (LayerSpec& layer : own.layers) {
    AttentionSpec& attention = layer.attention;
    const HeadShare heads = share_of(attention, share);
    if (cuts_heads(attention, share) && !whole.alibi_slopes.empty()) {
      own.alibi_slopes.assign(whole.alibi_slopes.begin() + heads.heads.begin,
                              whole.alibi_slopes.begin() + heads.heads.end);
    }
    attention.num_heads = static_cast<int32_t>(heads.heads.size());
    attention.num_kv_heads = static_cast<int32_t>(heads.kv_heads.size());
    layer.ffn.intermediate_size = share.outputs(layer.ffn.intermediate_size).size();
    ExpertsSpec& experts = layer.ffn.experts;
    if (share.whole_experts) continue;
    experts.intermediate_size = share.outputs(experts.intermediate_size).size();
  }
  return own;
}

}  // namespace quire
