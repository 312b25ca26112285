// Reference functions that the kernels are tested against: scalar, with double accumulation and one
// loop per sum. They share only the Params structs with the code under test.
#pragma once

#include <span>
#include <vector>

#include "kernels/api/activation.h"
#include "kernels/api/attention.h"
#include "kernels/api/causal_conv.h"
#include "kernels/api/delta_rule.h"
#include "kernels/api/embedding.h"
#include "kernels/api/experts.h"
#include "kernels/api/gated_norm.h"
#include "kernels/api/kv_cache.h"
#include "kernels/api/latent.h"
#include "kernels/api/linear.h"
#include "kernels/api/lora.h"
#include "kernels/api/norm.h"
#include "kernels/api/quant.h"
#include "kernels/api/router.h"
#include "kernels/api/selective_scan.h"
#include "kernels/api/sparse_attention.h"
#include "kernels/api/ssd_scan.h"
#include "kernels/api/step_gates.h"
#include "kernels/api/streams/residual_streams.h"

namespace quire::ref {

// Loads or stores element i of a buffer of f32, bf16, f16, fp8 or int8. Stores round to nearest
// even; fp8 saturates.
float load_element(const void* data, DType dtype, int64_t i);
void store_element(void* data, DType dtype, int64_t i, float value);

// Computes quire::linear() on dense row-major weights [N, K] of `weight_dtype`. params.weight gives
// n, k and compute; its data is not read.
void linear(const LinearParams& params, const void* dense, DType weight_dtype);

// Writes the floats that quantized rows encode, [num_rows, K], in the order of the codes.
void dequantize(const WeightSpec& spec, const QuantRows& rows, float* out);

void route_tokens(const RouteTokensParams& params);

// The dense row-major float32 matrices of an expert; `gate` may be null.
struct DenseExpert {
  const float* gate = nullptr;  // [I, E]
  const float* up = nullptr;    // [I, E]
  const float* down = nullptr;  // [E, I]
};
// The packed weights give shapes and compute types; their data is not read.
void run_experts(const RunExpertsParams& params, std::span<const DenseExpert> dense);

// b_rows[s][p] are the rows of B of part p of segment s, [num_outputs, r]. The packed rows are not
// read.
void apply_lora(const LoraParams& params, std::span<const std::vector<const void*>> b_rows);

void paged_attention(const PagedAttentionParams& params);  // workspace is not used
void qkv_to_cache(const QkvToCacheParams& params);
// Stores one head of one token at its place in the cache.
void store_key(const KvCacheView& kv, int64_t block, int64_t head, int64_t offset, const float* x);
void latent_to_cache(const LatentToCacheParams& params);
void index_to_cache(const IndexToCacheParams& params);
void choose_tokens(const ChooseTokensParams& params);
void sparse_attention(const SparseAttentionParams& params);
void rope_table(const RopeTableParams& params);
void kv_block_copy(const KvBlockCopyParams& params);
void rms_norm(const RmsNormParams& params);
void layer_norm(const LayerNormParams& params);
void activation(const ActivationParams& params);
void soft_cap(const SoftCapParams& params);
void embedding(const EmbeddingParams& params);

// The ops of states. They keep a state in the plain order of the formulas.
void causal_conv(const CausalConvParams& params);
void selective_scan(const SelectiveScanParams& params);
void ssd_scan(const SsdScanParams& params);
void delta_rule(const DeltaRuleParams& params);
void step_gates(const StepGatesParams& params);
void sigmoid(const SigmoidParams& params);
void gated_norm(const GatedNormParams& params);

void predict_streams(const PredictStreamsParams& params);
void correct_streams(const CorrectStreamsParams& params);
void match_magnitude(const MatchMagnitudeParams& params);
void add_scaled(const AddScaledParams& params);
void cut_below(const CutBelowParams& params);

}  // namespace quire::ref
