// The CPU's implementation of each op of api/.
#pragma once

#include "kernels/api/ops.h"

namespace quire::cpu {

void activation(Stream& stream, const ActivationParams& params);
void soft_cap(Stream& stream, const SoftCapParams& params);
void embedding(Stream& stream, const EmbeddingParams& params);
void rms_norm(Stream& stream, const RmsNormParams& params);
void layer_norm(Stream& stream, const LayerNormParams& params);
void rope_table(Stream& stream, const RopeTableParams& params);
void query_scales(Stream& stream, const QueryScalesParams& params);
void copy_rows(Stream& stream, const CopyRowsParams& params);
void place_floats(Stream& stream, const PlaceFloatsParams& params);
void qkv_to_cache(Stream& stream, const QkvToCacheParams& params);
void latent_to_cache(Stream& stream, const LatentToCacheParams& params);
void head_linear(Stream& stream, const HeadLinearParams& params);
int64_t head_linear_workspace_bytes(const Stream& stream, int64_t max_tokens,
                                    const WeightSpec& spec);
void kv_block_copy(Stream& stream, const KvBlockCopyParams& params);
void paged_attention(Stream& stream, const PagedAttentionParams& params);
int64_t paged_attention_workspace_bytes(const Stream& stream, int64_t max_tokens, int64_t max_reqs,
                                        int64_t max_seq_len, int32_t num_heads, int32_t head_dim);
inline int64_t paged_attention_cut_bytes(const Stream& /*stream*/, int64_t /*max_reqs*/) {
  return 0;
}
void index_to_cache(Stream& stream, const IndexToCacheParams& params);
void choose_tokens(Stream& stream, const ChooseTokensParams& params);
int64_t choose_tokens_workspace_bytes(const Stream& stream, int64_t max_seq_len, int32_t num_heads,
                                      int32_t head_dim);
void sparse_attention(Stream& stream, const SparseAttentionParams& params);
int64_t sparse_attention_workspace_bytes(const Stream& stream, DType cache, int32_t num_heads,
                                         int32_t head_dim, int32_t top_k);
void linear(Stream& stream, const LinearParams& params);
bool linear_gates(const Stream& stream, const WeightSpec& spec);
int64_t linear_workspace_bytes(const Stream& stream, int64_t max_rows, const WeightSpec& spec);
void pack_weight_rows(Stream& stream, const PackedWeight& weight, const WeightRows& rows);
void apply_lora(Stream& stream, const LoraParams& params);
void sigmoid_scale(Stream& stream, const SigmoidScaleParams& params);
void route_tokens(Stream& stream, const RouteTokensParams& params);
void run_experts(Stream& stream, const RunExpertsParams& params);
int64_t experts_workspace_bytes(const Stream& stream, int64_t max_tokens,
                                std::span<const ExpertWeights> experts, int32_t experts_per_token);
void causal_conv(Stream& stream, const CausalConvParams& params);
void selective_scan(Stream& stream, const SelectiveScanParams& params);
void ssd_scan(Stream& stream, const SsdScanParams& params);
void delta_rule(Stream& stream, const DeltaRuleParams& params);
void step_gates(Stream& stream, const StepGatesParams& params);
void sigmoid(Stream& stream, const SigmoidParams& params);
void gated_norm(Stream& stream, const GatedNormParams& params);

}  // namespace quire::cpu
