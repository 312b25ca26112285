// The GPU's implementation of each op of api/. No CUDA header is needed to call them.
#pragma once

#include "kernels/api/ops.h"

namespace quire::cuda {

inline constexpr int kMaxHeadDim = 512;  // of attention; even

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
void kv_block_copy(Stream& stream, const KvBlockCopyParams& params);
void paged_attention(Stream& stream, const PagedAttentionParams& params);
int64_t paged_attention_workspace_bytes(const Stream& stream, int64_t max_tokens, int64_t max_reqs,
                                        int64_t max_seq_len, int32_t num_heads, int32_t head_dim);
int64_t paged_attention_cut_bytes(const Stream& stream, int64_t max_reqs);
void linear(Stream& stream, const LinearParams& params);
bool supports_fp8_products(Stream& stream, const WeightSpec& spec);
int64_t linear_workspace_bytes(const Stream& stream, int64_t max_rows, const WeightSpec& spec);
bool linear_gates(const Stream& stream, const WeightSpec& spec);
void shrink_lora(Stream& stream, const LoraSlotsParams& params);
void expand_lora(Stream& stream, const LoraSlotsParams& params);
void sigmoid_scale(Stream& stream, const SigmoidScaleParams& params);
void route_tokens(Stream& stream, const RouteTokensParams& params);
void run_experts(Stream& stream, const RunExpertsParams& params);
int64_t experts_workspace_bytes(const Stream& stream, int64_t max_tokens,
                                std::span<const ExpertWeights> experts, int32_t experts_per_token);
void latent_to_cache(Stream& stream, const LatentToCacheParams& params);
void head_linear(Stream& stream, const HeadLinearParams& params);
int64_t head_linear_workspace_bytes(const Stream& stream, int64_t max_tokens,
                                    const WeightSpec& spec);
void causal_conv(Stream& stream, const CausalConvParams& params);
void selective_scan(Stream& stream, const SelectiveScanParams& params);
void ssd_scan(Stream& stream, const SsdScanParams& params);
void delta_rule(Stream& stream, const DeltaRuleParams& params);
void step_gates(Stream& stream, const StepGatesParams& params);
void sigmoid(Stream& stream, const SigmoidParams& params);
void gated_norm(Stream& stream, const GatedNormParams& params);
void predict_streams(Stream& stream, const PredictStreamsParams& params);
void correct_streams(Stream& stream, const CorrectStreamsParams& params);
void match_magnitude(Stream& stream, const MatchMagnitudeParams& params);
void add_scaled(Stream& stream, const AddScaledParams& params);
void cut_below(Stream& stream, const CutBelowParams& params);
void sample_rows(Stream& stream, const SampleRowsParams& params);
void count_tokens(Stream& stream, const CountTokensParams& params);
void build_step_inputs(Stream& stream, const StepInputsParams& params);
void keep_tokens(Stream& stream, const KeepTokensParams& params);
void read_bytes(Stream& stream, const ReadBytesParams& params);
void pack_weight_rows(Stream& stream, const PackedWeight& weight, const WeightRows& rows);

}  // namespace quire::cuda
