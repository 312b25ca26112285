#include "kernels/api/ops.h"

#include "base/check.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/streams/stream_ops.h"

namespace quire {
namespace {

const OpTable& ops_of(const Stream& stream) {
  return stream.ops() != nullptr ? *stream.ops() : cpu_ops();
}

const StreamOps& stream_ops_of(const Stream& stream) {
  QUIRE_CHECK(ops_of(stream).streams != nullptr, "the backend has no residual streams");
  return *ops_of(stream).streams;
}

constexpr StreamOps kCpuStreamOps{
    .predict_streams = cpu::predict_streams,
    .correct_streams = cpu::correct_streams,
    .match_magnitude = cpu::match_magnitude,
    .add_scaled = cpu::add_scaled,
    .cut_below = cpu::cut_below,
};

constexpr LoraOps kCpuLoraOps{
    .apply_lora = cpu::apply_lora, .shrink_lora = nullptr, .expand_lora = nullptr};

constexpr RowOps kCpuRowOps{
    .query_scales = cpu::query_scales,
    .copy_rows = cpu::copy_rows,
    .place_floats = cpu::place_floats,
};

constexpr SparseOps kCpuSparseOps{
    .index_to_cache = cpu::index_to_cache,
    .choose_tokens = cpu::choose_tokens,
    .choose_tokens_workspace_bytes = cpu::choose_tokens_workspace_bytes,
    .sparse_attention = cpu::sparse_attention,
    .sparse_attention_workspace_bytes = cpu::sparse_attention_workspace_bytes,
};

const SparseOps& sparse_ops(const Stream& stream) {
  const SparseOps* ops = ops_of(stream).sparse;
  QUIRE_CHECK(ops != nullptr, "[sparse_attention] the backend has none");
  return *ops;
}

}  // namespace

const OpTable& cpu_ops() {
  static constexpr OpTable kTable{
      .activation = cpu::activation,
      .soft_cap = cpu::soft_cap,
      .embedding = cpu::embedding,
      .rms_norm = cpu::rms_norm,
      .layer_norm = cpu::layer_norm,
      .rope_table = cpu::rope_table,
      .rows = &kCpuRowOps,
      .qkv_to_cache = cpu::qkv_to_cache,
      .kv_block_copy = cpu::kv_block_copy,
      .paged_attention = cpu::paged_attention,
      .paged_attention_workspace_bytes = cpu::paged_attention_workspace_bytes,
      .paged_attention_cut_bytes = cpu::paged_attention_cut_bytes,
      .linear = cpu::linear,
      .linear_workspace_bytes = cpu::linear_workspace_bytes,
      .linear_gates = cpu::linear_gates,
      .pack_weight_rows = cpu::pack_weight_rows,
      .lora = &kCpuLoraOps,
      .sigmoid_scale = cpu::sigmoid_scale,
      .route_tokens = cpu::route_tokens,
      .run_experts = cpu::run_experts,
      .experts_workspace_bytes = cpu::experts_workspace_bytes,
      .latent_to_cache = cpu::latent_to_cache,
      .head_linear = cpu::head_linear,
      .head_linear_workspace_bytes = cpu::head_linear_workspace_bytes,
      .sparse = &kCpuSparseOps,
      .causal_conv = cpu::causal_conv,
      .selective_scan = cpu::selective_scan,
      .ssd_scan = cpu::ssd_scan,
      .delta_rule = cpu::delta_rule,
      .step_gates = cpu::step_gates,
      .sigmoid = cpu::sigmoid,
      .gated_norm = cpu::gated_norm,
      .streams = &kCpuStreamOps,
      .supports_fp8_products = nullptr,
      .sample_rows = nullptr,
      .count_tokens = nullptr,
      .build_step_inputs = nullptr,
      .keep_tokens = nullptr,
      .read_bytes = nullptr,
  };
  return kTable;
}

void activation(Stream& stream, const ActivationParams& params) {
  ops_of(stream).activation(stream, params);
}
void soft_cap(Stream& stream, const SoftCapParams& params) {
  ops_of(stream).soft_cap(stream, params);
}
void embedding(Stream& stream, const EmbeddingParams& params) {
  ops_of(stream).embedding(stream, params);
}
void rms_norm(Stream& stream, const RmsNormParams& params) {
  ops_of(stream).rms_norm(stream, params);
}
void layer_norm(Stream& stream, const LayerNormParams& params) {
  ops_of(stream).layer_norm(stream, params);
}
void rope_table(Stream& stream, const RopeTableParams& params) {
  ops_of(stream).rope_table(stream, params);
}
void query_scales(Stream& stream, const QueryScalesParams& params) {
  ops_of(stream).rows->query_scales(stream, params);
}
void copy_rows(Stream& stream, const CopyRowsParams& params) {
  ops_of(stream).rows->copy_rows(stream, params);
}
void place_floats(Stream& stream, const PlaceFloatsParams& params) {
  ops_of(stream).rows->place_floats(stream, params);
}
void qkv_to_cache(Stream& stream, const QkvToCacheParams& params) {
  ops_of(stream).qkv_to_cache(stream, params);
}
void kv_block_copy(Stream& stream, const KvBlockCopyParams& params) {
  ops_of(stream).kv_block_copy(stream, params);
}
void paged_attention(Stream& stream, const PagedAttentionParams& params) {
  ops_of(stream).paged_attention(stream, params);
}
int64_t paged_attention_workspace_bytes(const Stream& stream, int64_t max_tokens, int64_t max_reqs,
                                        int64_t max_seq_len, int32_t num_heads, int32_t head_dim) {
  return ops_of(stream).paged_attention_workspace_bytes(stream, max_tokens, max_reqs, max_seq_len,
                                                        num_heads, head_dim);
}
int64_t paged_attention_cut_bytes(const Stream& stream, int64_t max_reqs) {
  return ops_of(stream).paged_attention_cut_bytes(stream, max_reqs);
}
void linear(Stream& stream, const LinearParams& params) { ops_of(stream).linear(stream, params); }
bool linear_gates(const Stream& stream, const WeightSpec& spec) {
  const auto gates = ops_of(stream).linear_gates;
  return gates != nullptr && gates(stream, spec);
}
int64_t linear_workspace_bytes(const Stream& stream, int64_t max_rows, const WeightSpec& spec) {
  return ops_of(stream).linear_workspace_bytes(stream, max_rows, spec);
}
void pack_weight_rows(Stream& stream, const PackedWeight& weight, const WeightRows& rows) {
  ops_of(stream).pack_weight_rows(stream, weight, rows);
}
void apply_lora(Stream& stream, const LoraParams& params) {
  QUIRE_CHECK(ops_of(stream).lora->apply_lora != nullptr, "[apply_lora] expected a CPU's stream");
  ops_of(stream).lora->apply_lora(stream, params);
}
void shrink_lora(Stream& stream, const LoraSlotsParams& params) {
  QUIRE_CHECK(ops_of(stream).lora->shrink_lora != nullptr, "[shrink_lora] expected a GPU's stream");
  ops_of(stream).lora->shrink_lora(stream, params);
}
void expand_lora(Stream& stream, const LoraSlotsParams& params) {
  QUIRE_CHECK(ops_of(stream).lora->expand_lora != nullptr, "[expand_lora] expected a GPU's stream");
  ops_of(stream).lora->expand_lora(stream, params);
}
bool supports_experts(const Stream& stream) { return ops_of(stream).run_experts != nullptr; }
void sigmoid_scale(Stream& stream, const SigmoidScaleParams& params) {
  QUIRE_CHECK(supports_experts(stream), "[sigmoid_scale] the backend has no experts");
  ops_of(stream).sigmoid_scale(stream, params);
}
void route_tokens(Stream& stream, const RouteTokensParams& params) {
  QUIRE_CHECK(supports_experts(stream), "[route_tokens] the backend has no experts");
  ops_of(stream).route_tokens(stream, params);
}
void run_experts(Stream& stream, const RunExpertsParams& params) {
  QUIRE_CHECK(supports_experts(stream), "[run_experts] the backend has no experts");
  ops_of(stream).run_experts(stream, params);
}
int64_t experts_workspace_bytes(const Stream& stream, int64_t max_tokens,
                                std::span<const ExpertWeights> experts, int32_t experts_per_token) {
  QUIRE_CHECK(supports_experts(stream), "[experts_workspace_bytes] the backend has no experts");
  return ops_of(stream).experts_workspace_bytes(stream, max_tokens, experts, experts_per_token);
}
bool supports_latents(const Stream& stream) { return ops_of(stream).latent_to_cache != nullptr; }
void latent_to_cache(Stream& stream, const LatentToCacheParams& params) {
  QUIRE_CHECK(supports_latents(stream), "[latent_to_cache] the backend has no latent attention");
  ops_of(stream).latent_to_cache(stream, params);
}
void head_linear(Stream& stream, const HeadLinearParams& params) {
  QUIRE_CHECK(supports_latents(stream), "[head_linear] the backend has no latent attention");
  ops_of(stream).head_linear(stream, params);
}
int64_t head_linear_workspace_bytes(const Stream& stream, int64_t max_tokens,
                                    const WeightSpec& spec) {
  QUIRE_CHECK(supports_latents(stream),
              "[head_linear_workspace_bytes] the backend has no latent attention");
  return ops_of(stream).head_linear_workspace_bytes(stream, max_tokens, spec);
}
bool supports_sparse_attention(const Stream& stream) { return ops_of(stream).sparse != nullptr; }
void index_to_cache(Stream& stream, const IndexToCacheParams& params) {
  sparse_ops(stream).index_to_cache(stream, params);
}
void choose_tokens(Stream& stream, const ChooseTokensParams& params) {
  sparse_ops(stream).choose_tokens(stream, params);
}
int64_t choose_tokens_workspace_bytes(const Stream& stream, int64_t max_seq_len, int32_t num_heads,
                                      int32_t head_dim) {
  return sparse_ops(stream).choose_tokens_workspace_bytes(stream, max_seq_len, num_heads, head_dim);
}
void sparse_attention(Stream& stream, const SparseAttentionParams& params) {
  sparse_ops(stream).sparse_attention(stream, params);
}
int64_t sparse_attention_workspace_bytes(const Stream& stream, DType cache, int32_t num_heads,
                                         int32_t head_dim, int32_t top_k) {
  return sparse_ops(stream).sparse_attention_workspace_bytes(stream, cache, num_heads, head_dim,
                                                             top_k);
}
bool supports_states(const Stream& stream) { return ops_of(stream).causal_conv != nullptr; }
void causal_conv(Stream& stream, const CausalConvParams& params) {
  QUIRE_CHECK(supports_states(stream), "[causal_conv] the backend has no states");
  ops_of(stream).causal_conv(stream, params);
}
void selective_scan(Stream& stream, const SelectiveScanParams& params) {
  QUIRE_CHECK(supports_states(stream), "[selective_scan] the backend has no states");
  ops_of(stream).selective_scan(stream, params);
}
void ssd_scan(Stream& stream, const SsdScanParams& params) {
  QUIRE_CHECK(supports_states(stream), "[ssd_scan] the backend has no states");
  ops_of(stream).ssd_scan(stream, params);
}
void delta_rule(Stream& stream, const DeltaRuleParams& params) {
  QUIRE_CHECK(supports_states(stream), "[delta_rule] the backend has no states");
  ops_of(stream).delta_rule(stream, params);
}
void step_gates(Stream& stream, const StepGatesParams& params) {
  QUIRE_CHECK(supports_states(stream), "[step_gates] the backend has no states");
  ops_of(stream).step_gates(stream, params);
}
void sigmoid(Stream& stream, const SigmoidParams& params) {
  QUIRE_CHECK(supports_states(stream), "[sigmoid] the backend has no states");
  ops_of(stream).sigmoid(stream, params);
}
void gated_norm(Stream& stream, const GatedNormParams& params) {
  QUIRE_CHECK(supports_states(stream), "[gated_norm] the backend has no states");
  ops_of(stream).gated_norm(stream, params);
}
void predict_streams(Stream& stream, const PredictStreamsParams& params) {
  stream_ops_of(stream).predict_streams(stream, params);
}
void correct_streams(Stream& stream, const CorrectStreamsParams& params) {
  stream_ops_of(stream).correct_streams(stream, params);
}
void match_magnitude(Stream& stream, const MatchMagnitudeParams& params) {
  stream_ops_of(stream).match_magnitude(stream, params);
}
void add_scaled(Stream& stream, const AddScaledParams& params) {
  stream_ops_of(stream).add_scaled(stream, params);
}
void cut_below(Stream& stream, const CutBelowParams& params) {
  stream_ops_of(stream).cut_below(stream, params);
}
bool supports_fp8_products(Stream& stream, const WeightSpec& spec) {
  const auto supports = ops_of(stream).supports_fp8_products;
  return supports != nullptr && supports(stream, spec);
}
void sample_rows(Stream& stream, const SampleRowsParams& params) {
  QUIRE_CHECK(ops_of(stream).sample_rows != nullptr, "[sample_rows] expected a GPU's stream");
  ops_of(stream).sample_rows(stream, params);
}
void count_tokens(Stream& stream, const CountTokensParams& params) {
  QUIRE_CHECK(ops_of(stream).count_tokens != nullptr, "[count_tokens] expected a GPU's stream");
  ops_of(stream).count_tokens(stream, params);
}
void build_step_inputs(Stream& stream, const StepInputsParams& params) {
  QUIRE_CHECK(ops_of(stream).build_step_inputs != nullptr,
              "[build_step_inputs] expected a GPU's stream");
  ops_of(stream).build_step_inputs(stream, params);
}
void keep_tokens(Stream& stream, const KeepTokensParams& params) {
  QUIRE_CHECK(ops_of(stream).keep_tokens != nullptr, "[keep_tokens] expected a GPU's stream");
  ops_of(stream).keep_tokens(stream, params);
}

void read_bytes(Stream& stream, const ReadBytesParams& params) {
  QUIRE_CHECK(ops_of(stream).read_bytes != nullptr, "[read_bytes] expected a GPU's stream");
  ops_of(stream).read_bytes(stream, params);
}

}  // namespace quire
