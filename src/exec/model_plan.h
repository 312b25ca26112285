// A ModelPlan is everything that is decided about serving a model before memory is allocated or a
// weight is read.
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
  // The model is either files, which are shared with whoever reads its tokenizer and stay mapped as
  // long as the runner lives, or, for measurements, the name of a shape (models/shapes.h) that gets
  // random weights.
  std::shared_ptr<const ModelFiles> files = {};
  std::string shape = {};
  // Of a shape: how the weights of its layers are packed. auto (as `dtype`), int8, int8-weights,
  // int4-g32, int4-g128, fp8, or a GGUF type such as q4_k.
  std::string shape_weights = "auto";

  // Of the model's layers only the first so many, with its head: what it would say early; 0: all.
  int64_t num_hidden_layers = 0;

  std::string dtype = "auto";  // weights: auto (the checkpoint's), float32, bfloat16, float16
  std::string kv_cache_dtype = "auto";  // auto (the weights'), float32, bfloat16, float16
  std::optional<ComputeType> compute =
      {};  // else bfloat16 products for bfloat16 and quantized weights, float32 otherwise
  // Activations are rounded to int8, group by group, before they meet quantized weights whose codes
  // stand for integers (kernels/api/quant.h).
  bool activation_int8 = false;
  std::string isa = "auto";
  int threads = 0;           // 0: one per physical core, within the CPU quota
  bool pin_threads = false;  // for cores that no other program uses
  // Where the compute threads run, whoever calls execute() included, and so where memory lies; empty,
  // or fewer than `threads`: on any.
  std::vector<int> cpus = {};

  int32_t block_size = 16;  // a multiple of 8 in [8, 256]
  // A snapshot of a sequence's states is taken after so many tokens, rounded up to whole blocks.
  int32_t state_block_size = 512;
  int64_t max_model_len = 0;  // 0: what the model's configuration vouches for
  // Most tokens of an image; 0: as many as the model's files allow. Larger pictures are shrunk, or cut
  // into fewer tiles.
  int32_t max_image_tokens = 0;
  int64_t max_num_batched_tokens = 2048;
  int64_t max_num_seqs = 256;
  std::optional<int64_t> kv_cache_memory_bytes = {};  // else from memory_utilization
  int64_t host_kv_bytes = 0;        // on a CPU: for copies of KV blocks that steps ask for
  bool shares_host_blocks = false;  // with other processes of this machine
  double memory_utilization = 0.9;  // share of free memory for weights, workspace and KV cache
  // Runners that share these weights and this machine's memory (ModelRunner::create_beside()).
  int32_t num_replicas = 1;
  int64_t free_memory_bytes = 0;  // of which this model has memory_utilization; 0: what is free now
  int64_t max_logits_bytes = int64_t{64}
                             << 20;  // rows of logits are computed this many bytes at a time

  // How many adapters may be loaded at once, and their greatest rank. With 0 there are none, and no
  // memory for any.
  int32_t max_adapters = 0;
  int64_t max_lora_rank = 16;
  // All adapters together have this much memory. 0 stands for max_adapters of every matrix with the
  // greatest rank, of which max_expert_adapters have updates of experts, and for
  // lora_whole_elements of modules that they replace as a whole.
  int64_t lora_memory_bytes = 0;
  std::optional<int32_t> max_expert_adapters;  // nothing: all
  int64_t lora_whole_elements = 0;

  // Which layers a stage of a pipeline has. Its hidden states come from the stage before
  // (hidden()).
  PipelineStage stage = {};

  // Of a rank that computes the model together with others, its part and the group, which has
  // ModelPlan::shared_bytes; only a plan can do without the group.
  RankShare share = {};
  RankGroup* group = nullptr;
  // Of experts that are spread over ranks (RankShare::whole_experts), read from files.
  ExpertBalanceOptions expert_balance = {};

  // Of a model that drafts from the hidden states of another: its checkpoint, of which `files` are.
  std::shared_ptr<const DraftHead> draft_head = {};
  // A model that drafts reads those states here, and the one that it drafts for puts them there. It
  // works on CPUs with one rank.
  std::shared_ptr<HiddenRows> hidden_rows = {};

  std::string weight_cache_dir = {};  // packed weights are kept here (weights/weight_cache.h)

  std::function<void(int64_t done_bytes, int64_t total_bytes)> on_progress = {};  // while loading
  // Tests set it. It is called on the thread of execute(), with raw logits of every row that is
  // computed, and the position of the token that they predict.
  std::function<void(RequestId, int32_t position, std::span<const float> logits)> on_logits = {};
};

struct ModelPlan {
  ModelConfig config;
  DecoderSpec whole;         // of all ranks and stages together
  DecoderSpec staged;        // of all ranks of this stage
  DecoderSpec spec;          // of this rank
  int64_t shared_bytes = 0;  // that the ranks of a group share
  DType dtype = DType::kBF16;
  DType kv_dtype = DType::kBF16;
  ComputeType compute = ComputeType::kF32;
  ComputeType quant_compute = ComputeType::kF32;   // of weights that the checkpoint quantized
  ComputeType matrix_compute = ComputeType::kF32;  // that the layers' matrices have come to
  std::optional<WeightSpec> layer_packing;         // of a shape's random weights, unless as dtype
  DecoderLimits limits;
  std::optional<VisionSpec> vision;    // of models that read images
  std::optional<DecoderSpec> encoder;  // of models that look at what it has made of a source
  KvLayout kv;
  MemoryPlan memory;
};

// Checks the options against each other and the configuration. Memory is not yet planned, which
// needs the weights and the stream (ModelRunner::plan()).
Result<ModelPlan> plan_model(const ModelRunnerOptions& options, const ModelConfig& config,
                             DType checkpoint_dtype);

// Returns the element type that most bytes of the checkpoint's float matrices have. It is bfloat16
// when all matrices are quantized, and when float32 ones are but the remainder beside quantized
// ones, as routers of experts are in GGUF files: that says nothing about activations.
DType dominant_dtype(const TensorSource& source);

}  // namespace quire
