// The table of the ops of one backend. The functions that api/ declares look up the table of their
// stream and call the op there. The CPU's table is cpu_ops(), that of CUDA is in cuda/; builds
// without CUDA have no_cuda/ instead.
#pragma once

#include "kernels/api/activation.h"
#include "kernels/api/attention.h"
#include "kernels/api/causal_conv.h"
#include "kernels/api/delta_rule.h"
#include "kernels/api/embedding.h"
#include "kernels/api/experts.h"
#include "kernels/api/fp8_support.h"
#include "kernels/api/gated_norm.h"
#include "kernels/api/kv_cache.h"
#include "kernels/api/latent.h"
#include "kernels/api/linear.h"
#include "kernels/api/lora.h"
#include "kernels/api/norm.h"
#include "kernels/api/router.h"
#include "kernels/api/rows/copy_rows.h"
#include "kernels/api/rows/read_bytes.h"
#include "kernels/api/sampling.h"
#include "kernels/api/selective_scan.h"
#include "kernels/api/sparse_attention.h"
#include "kernels/api/ssd_scan.h"
#include "kernels/api/step_gates.h"
#include "kernels/api/step_inputs.h"
#include "kernels/api/streams/residual_streams.h"

namespace quire {

// The ops of models with several residual streams.
struct StreamOps {
  void (*predict_streams)(Stream&, const PredictStreamsParams&);
  void (*correct_streams)(Stream&, const CorrectStreamsParams&);
  void (*match_magnitude)(Stream&, const MatchMagnitudeParams&);
  void (*add_scaled)(Stream&, const AddScaledParams&);
  void (*cut_below)(Stream&, const CutBelowParams&);
};

// The ops that copy values from one place to another, and the factors by position.
struct RowOps {
  void (*query_scales)(Stream&, const QueryScalesParams&);
  void (*copy_rows)(Stream&, const CopyRowsParams&);
  void (*place_floats)(Stream&, const PlaceFloatsParams&);
};

// The ops of adapters. CPUs have the first, GPUs the two others; an op that a backend lacks is
// null.
struct LoraOps {
  void (*apply_lora)(Stream&, const LoraParams&);
  void (*shrink_lora)(Stream&, const LoraSlotsParams&);
  void (*expand_lora)(Stream&, const LoraSlotsParams&);
};

// The ops of attention to the tokens that an indexer chooses.
struct SparseOps {
  void (*index_to_cache)(Stream&, const IndexToCacheParams&);
  void (*choose_tokens)(Stream&, const ChooseTokensParams&);
  int64_t (*choose_tokens_workspace_bytes)(const Stream&, int64_t max_seq_len, int32_t num_heads,
                                           int32_t head_dim);
  void (*sparse_attention)(Stream&, const SparseAttentionParams&);
  int64_t (*sparse_attention_workspace_bytes)(const Stream&, DType cache, int32_t num_heads,
                                              int32_t head_dim, int32_t top_k);
};

struct OpTable {
  void (*activation)(Stream&, const ActivationParams&);
  void (*soft_cap)(Stream&, const SoftCapParams&);
  void (*embedding)(Stream&, const EmbeddingParams&);
  void (*rms_norm)(Stream&, const RmsNormParams&);
  void (*layer_norm)(Stream&, const LayerNormParams&);
  void (*rope_table)(Stream&, const RopeTableParams&);
  const RowOps* rows;
  void (*qkv_to_cache)(Stream&, const QkvToCacheParams&);
  void (*kv_block_copy)(Stream&, const KvBlockCopyParams&);
  void (*paged_attention)(Stream&, const PagedAttentionParams&);
  int64_t (*paged_attention_workspace_bytes)(const Stream&, int64_t max_tokens, int64_t max_reqs,
                                             int64_t max_seq_len, int32_t num_heads,
                                             int32_t head_dim);
  int64_t (*paged_attention_cut_bytes)(const Stream&, int64_t max_reqs);
  void (*linear)(Stream&, const LinearParams&);
  int64_t (*linear_workspace_bytes)(const Stream&, int64_t max_rows, const WeightSpec&);
  bool (*linear_gates)(const Stream&, const WeightSpec&);  // null: never
  void (*pack_weight_rows)(Stream&, const PackedWeight&, const WeightRows&);
  const LoraOps* lora;
  // Null: the backend has no experts.
  void (*sigmoid_scale)(Stream&, const SigmoidScaleParams&);
  void (*route_tokens)(Stream&, const RouteTokensParams&);
  void (*run_experts)(Stream&, const RunExpertsParams&);
  int64_t (*experts_workspace_bytes)(const Stream&, int64_t max_tokens,
                                     std::span<const ExpertWeights>, int32_t experts_per_token);
  // Null: the backend has no latent attention.
  void (*latent_to_cache)(Stream&, const LatentToCacheParams&);
  void (*head_linear)(Stream&, const HeadLinearParams&);
  int64_t (*head_linear_workspace_bytes)(const Stream&, int64_t max_tokens, const WeightSpec&);
  const SparseOps* sparse;  // null: the backend has no sparse attention
  // Null: the backend has no states.
  void (*causal_conv)(Stream&, const CausalConvParams&);
  void (*selective_scan)(Stream&, const SelectiveScanParams&);
  void (*ssd_scan)(Stream&, const SsdScanParams&);
  void (*delta_rule)(Stream&, const DeltaRuleParams&);
  void (*step_gates)(Stream&, const StepGatesParams&);
  void (*sigmoid)(Stream&, const SigmoidParams&);
  void (*gated_norm)(Stream&, const GatedNormParams&);
  const StreamOps* streams;                                   // null: no residual streams
  bool (*supports_fp8_products)(Stream&, const WeightSpec&);  // null: never
  // Only GPUs have the ops from here on; on a CPU sample/ and exec/input_batch.h do that work.
  void (*sample_rows)(Stream&, const SampleRowsParams&);
  void (*count_tokens)(Stream&, const CountTokensParams&);
  void (*build_step_inputs)(Stream&, const StepInputsParams&);
  void (*keep_tokens)(Stream&, const KeepTokensParams&);
  void (*read_bytes)(Stream&, const ReadBytesParams&);
};

const OpTable& cpu_ops();

}  // namespace quire
