// A ModelPlan is everything that is decided about serving a model before memory is allocated or
// weights are read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "core/hidden_rows.h"
#include "core/step.h"
#include "exec/balancing/expert_balance_options.h"
#include "exec/kv_layout.h"
#include "exec/memory_plan.h"
#include "exec/stages/pipeline_stage.h"
#include "models/drafting/draft_head.h"
#include "models/model_config.h"
#include "models/vision/vision_spec.h"
#include "nn/decoder/decoder.h"
#include "nn/rank_exchange.h"
#include "weights/files/model_files.h"

namespace quire {

struct ModelRunnerOptions {
  // The model: either files, which the tokenizer may share and which stay mapped as long as the
  // runner lives, or, for measurements, the name of a shape (models/shapes.h) whose weights are
  // random.
  std::shared_ptr<const ModelFiles> files = {};
  std::string shape = {};
  // For a shape: the packing of its layers' weights, which is auto (as `dtype`), int8,
  // int8-weights, int4-g32, int4-g128, fp8, or a GGUF type such as q4_k.
  std::string shape_weights = "auto";

  // How many of the model's first layers run before its head, as if it ended there; 0: all.
  int64_t num_hidden_layers = 0;

  std::string dtype = "auto";  // weights: auto (the checkpoint's), float32, bfloat16, float16
  std::string kv_cache_dtype = "auto";  // auto (the weights'), float32, bfloat16, float16
  std::optional<ComputeType> compute =
      {};  // else bfloat16 products for bfloat16 and quantized weights, float32 otherwise
  // Whether to round activations to int8, group by group, for products with quantized weights whose
  // codes stand for integers (kernels/api/quant.h).
  bool activation_int8 = false;
  std::string isa = "auto";
  int threads = 0;           // 0: one per physical core, within the CPU quota
  bool pin_threads = false;  // for cores that no other program uses
  // The CPUs of the compute threads (the caller of execute() is one of them), which decide where
  // memory lies; empty, or fewer than `threads`: any CPUs.
  std::vector<int> cpus = {};

  int32_t block_size = 16;  // a multiple of 8 in [8, 256]
  // The tokens between two snapshots of a sequence's states, rounded up to whole blocks.
  int32_t state_block_size = 512;
  int64_t max_model_len = 0;  // 0: the limit in the model's configuration
  // The most tokens of an image; 0: as many as the model's files allow. Larger pictures are shrunk
  // or cut into fewer tiles.
  int32_t max_image_tokens = 0;
  int64_t max_num_batched_tokens = 2048;
  int64_t max_num_seqs = 256;
  std::optional<int64_t> kv_cache_memory_bytes = {};  // none: from memory_utilization
  int64_t host_kv_bytes = 0;        // on a CPU: for copies of KV blocks that steps ask for
  bool shares_host_blocks = false;  // with other processes of this machine
  double memory_utilization = 0.9;  // share of free memory for weights, workspace and KV cache
  // Runners that share these weights and the machine's memory (ModelRunner::create_beside()).
  int32_t num_replicas = 1;
  int64_t free_memory_bytes = 0;  // memory_utilization is a share of it; 0: what is free
  int64_t max_logits_bytes = int64_t{64}
                             << 20;  // rows of logits are computed this many bytes at a time

  // The number of adapters that may be loaded at once, and their greatest rank. With 0 adapters no
  // memory is reserved for them.
  int32_t max_adapters = 0;
  int64_t max_lora_rank = 16;
  // Memory of all adapters together. 0 stands for max_adapters adapters with the greatest rank for
  // every matrix, of which max_expert_adapters update experts, and for lora_whole_elements elements
  // of modules that adapters replace as a whole.
  int64_t lora_memory_bytes = 0;
  std::optional<int32_t> max_expert_adapters;  // none: all of them
  int64_t lora_whole_elements = 0;

  // The stage of a pipeline that this runner is. Its input comes from the stage before (hidden()).
  PipelineStage stage = {};

  // For a rank that computes the model together with others: its part, and its group, which has
  // ModelPlan::shared_bytes. Only planning works without the group.
  RankShare share = {};
  RankGroup* group = nullptr;
  // For experts that are spread over ranks (RankShare::whole_experts) and were loaded from files.
  ExpertBalanceOptions expert_balance = {};

  // For a draft model that reads another model's hidden states: its checkpoint, to which `files`
  // belong.
  std::shared_ptr<const DraftHead> draft_head = {};
  // Where the served model stores its hidden states and its draft model reads them. Works on CPUs
  // with one rank.
  std::shared_ptr<HiddenRows> hidden_rows = {};

  std::string weight_cache_dir = {};  // packed weights are kept here (weights/weight_cache.h)

  std::function<void(int64_t done_bytes, int64_t total_bytes)> on_progress = {};  // while loading
  // Set by tests only. It is called on the thread of execute() with the raw logits of every
  // computed row and the position of the token that they predict.
  std::function<void(RequestId, int32_t position, std::span<const float> logits)> on_logits = {};
};

struct ModelPlan {
  ModelConfig config;
  DecoderSpec whole;         // of all ranks and stages together
  DecoderSpec staged;        // of all ranks of this stage
  DecoderSpec spec;          // of this rank
  int64_t shared_bytes = 0;  // shared by the ranks of a group
  DType dtype = DType::kBF16;
  DType kv_dtype = DType::kBF16;
  ComputeType compute = ComputeType::kF32;
  ComputeType quant_compute = ComputeType::kF32;   // of weights that the checkpoint quantized
  ComputeType matrix_compute = ComputeType::kF32;  // that the layers' matrices use in the end
  std::optional<WeightSpec> layer_packing;         // of a shape's random weights, unless as dtype
  DecoderLimits limits;
  std::optional<VisionSpec> vision;    // of models that read images
  std::optional<DecoderSpec> encoder;  // of models with cross-attention to a source
  KvLayout kv;
  MemoryPlan memory;
};

// Checks the options against each other and the configuration. Memory is not yet planned, which
// needs the weights and the stream (ModelRunner::plan()).
Result<ModelPlan> plan_model(const ModelRunnerOptions& options, const ModelConfig& config,
                             DType checkpoint_dtype);

// Returns the element type that holds most bytes of the checkpoint's float matrices. It returns
// bfloat16 when all matrices are quantized, and also when the type is float32 but the quantized
// matrices are larger: the float32 ones (routers of experts in GGUF files, for example) then say
// nothing about the type of activations.
DType dominant_dtype(const TensorSource& source);

}  // namespace quire
