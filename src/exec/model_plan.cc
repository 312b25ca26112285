#include "exec/model_plan.h"

#include <algorithm>
#include <array>

#include "kernels/api/quant.h"

namespace quire {
namespace {

constexpr int64_t kMaxModelLen = int64_t{1} << 24;

bool is_float16(std::string_view name) { return name == "float16" || name == "half"; }

Result<DType> parse_dtype(std::string_view flag, std::string_view name, DType automatic) {
  if (name == "auto") return automatic;
  if (name == "float32" || name == "float") return DType::kF32;
  if (name == "bfloat16") return DType::kBF16;
  if (is_float16(name)) return DType::kF16;
  return invalid_argument("{}: expected auto, float32, bfloat16 or float16, got {}", flag, name);
}

// Takes vLLM's names, where fp8 is e4m3.
Result<DType> parse_kv_dtype(std::string_view name, DType automatic) {
  if (name == "fp8" || name == "fp8_e4m3") return DType::kF8E4M3;
  if (name == "fp8_e5m2") return DType::kF8E5M2;
  if (name == "int8" || name == "int8_per_token_head") return DType::kI8;
  const Result<DType> dtype = parse_dtype("--kv-cache-dtype", name, automatic);
  if (dtype.ok()) return dtype;
  return invalid_argument(
      "--kv-cache-dtype: expected auto, float32, bfloat16, float16, fp8, fp8_e4m3, fp8_e5m2 or "
      "int8, got {}",
      name);
}

// Returns the packing of a shape's random weights; nullopt: floats.
Result<std::optional<WeightSpec>> parse_shape_weights(const std::string& name,
                                                      ComputeType compute) {
  constexpr int64_t kWholeRow = int64_t{1} << 40;
  if (name == "auto") return std::optional<WeightSpec>();
  WeightSpec spec{.compute = compute};
  std::string type = name;
  std::transform(type.begin(), type.end(), type.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  if (name == "int8") {
    spec.dtype = DType::kI8;
    spec.compute = ComputeType::kInt8;
  } else if (name == "int8-weights") {
    spec.quant = {.bits = 8, .offset = kInt8Offset, .group_size = kWholeRow};
  } else if (name == "int4-g32" || name == "int4-g128") {
    spec.quant = {.bits = 4,
                  .offset = 8,
                  .group_size = name == "int4-g32" ? 32 : 128,
                  .scale_type = ScaleType::kF16};
  } else if (name == "fp8") {
    spec.quant = {.bits = 8, .codebook = Codebook::kE4M3, .group_size = kWholeRow};
  } else if (const auto quant = ggml_quant_spec(type)) {
    spec.quant = *quant;
  } else {
    return invalid_argument(
        "--shape-weights: expected auto, int8, int8-weights, int4-g32, int4-g128, fp8 or a GGUF "
        "type such as q4_k, got {}",
        name);
  }
  // A group that spans a whole row is longer than any group that int8 activations support.
  spec.k = kWholeRow;
  if (spec.quant.is_quantized() && compute == ComputeType::kInt8 && !takes_int8_activations(spec)) {
    spec.compute = ComputeType::kBF16;
  }
  spec.k = 0;
  return std::optional(spec);
}

Status check_range(std::string_view name, int64_t value, int64_t min, int64_t max) {
  if (value >= min && value <= max) return {};
  return invalid_argument("{}: expected a value in [{}, {}], got {}", name, min, max, value);
}

// Encoders are narrow: this many tokens go through the MLP at once, so that its intermediate values
// stay in a core's cache.
int64_t encoder_mlp_tokens(int64_t intermediate_size) {
  constexpr int64_t kCacheBytes = int64_t{1} << 20;
  const int64_t tokens = kCacheBytes / (intermediate_size * static_cast<int64_t>(sizeof(float)));
  return std::clamp<int64_t>(tokens / 32 * 32, 64, 512);
}

Status keep_first_layers(int64_t num_layers, ModelPlan& plan) {
  if (num_layers == 0) return {};
  std::vector<LayerSpec>& layers = plan.whole.layers;
  if (num_layers < 0 || num_layers > std::ssize(layers)) {
    return invalid_argument("num_hidden_layers: expected 1 to {}, those of the model, got {}",
                            layers.size(), num_layers);
  }
  layers.resize(static_cast<size_t>(num_layers));
  plan.config.names.ignores_later_layers = true;
  return {};
}

Status check_adapters(const ModelRunnerOptions& options, const DecoderSpec& whole) {
  QUIRE_RETURN_IF_ERROR(check_range("--max-cpu-loras", options.max_adapters, 0, 1 << 16));
  QUIRE_RETURN_IF_ERROR(check_range("--max-lora-rank", options.max_lora_rank, 1, 1 << 14));
  if (options.max_adapters > 0 && whole.has_shared_blocks())
    return unimplemented("--enable-lora: expected a model whose layers share no block");
  return {};
}

Status check_balance(const ModelRunnerOptions& options) {
  const ExpertBalanceOptions& balance = options.expert_balance;
  if (!balance.is_enabled) return {};
  if (!options.share.whole_experts)
    return invalid_argument("--enable-eplb: expected --enable-expert-parallel too");
  if (options.files == nullptr)
    return unimplemented("--enable-eplb: expected a checkpoint, from which experts are read anew");
  if (options.num_replicas > 1) {
    return unimplemented("--enable-eplb: expected --data-parallel-size 1, got {}",
                         options.num_replicas);
  }
  constexpr int64_t kMostSteps = int64_t{1} << 40;
  QUIRE_RETURN_IF_ERROR(
      check_range("--eplb-config: window_size", balance.window_size, 1, kMostSteps));
  return check_range("--eplb-config: step_interval", balance.step_interval, 1, kMostSteps);
}

// The element types of weights, KV and products.
Status choose_types(const ModelRunnerOptions& options, DType checkpoint_dtype, ModelPlan& plan) {
  QUIRE_ASSIGN_OR_RETURN(plan.dtype, parse_dtype("--dtype", options.dtype, checkpoint_dtype));
  QUIRE_ASSIGN_OR_RETURN(plan.kv_dtype, parse_kv_dtype(options.kv_cache_dtype, plan.dtype));
  plan.compute =
      options.compute.value_or(plan.dtype == DType::kBF16 ? ComputeType::kBF16 : ComputeType::kF32);
  // A user who asks for float16 by name wants its precision, which bfloat16 activations do not
  // have.
  const bool keeps_floats = plan.dtype == DType::kF32 || is_float16(options.dtype);
  plan.quant_compute =
      options.compute.value_or(keeps_floats ? ComputeType::kF32 : ComputeType::kBF16);
  if (options.activation_int8) plan.quant_compute = ComputeType::kInt8;

  if (options.shape_weights != "auto" && options.shape.empty()) {
    return invalid_argument(
        "--shape-weights: expected auto for a checkpoint, whose weights are as stored, got {}",
        options.shape_weights);
  }
  QUIRE_ASSIGN_OR_RETURN(plan.layer_packing,
                         parse_shape_weights(options.shape_weights, plan.quant_compute));
  return {};
}

Status check_sizes(const ModelRunnerOptions& options) {
  QUIRE_RETURN_IF_ERROR(check_range("--block-size", options.block_size, 8, 256));
  if (options.block_size % 8 != 0) {
    return invalid_argument("--block-size: expected a multiple of 8, got {}", options.block_size);
  }
  QUIRE_RETURN_IF_ERROR(
      check_range("--max-num-batched-tokens", options.max_num_batched_tokens, 1, 1 << 20));
  QUIRE_RETURN_IF_ERROR(check_range("--max-num-seqs", options.max_num_seqs, 1, 1 << 16));
  QUIRE_RETURN_IF_ERROR(check_range("--max-model-len", options.max_model_len, 0, kMaxModelLen));
  if (!(options.memory_utilization > 0.0 && options.memory_utilization <= 1.0)) {
    return invalid_argument("--memory-utilization: expected a value in (0, 1], got {}",
                            options.memory_utilization);
  }
  return check_range("--mamba-block-size", options.state_block_size, 1, kMaxModelLen);
}

void set_limits(const ModelRunnerOptions& options, int64_t max_len, ModelPlan& plan) {
  plan.limits.max_tokens = options.max_num_batched_tokens;
  if (plan.spec.is_bidirectional()) {
    plan.limits.max_tokens = std::max(plan.limits.max_tokens, max_len);
    plan.limits.mlp_tokens = encoder_mlp_tokens(plan.config.intermediate_size);
  }
  plan.limits.max_reqs = std::min(options.max_num_seqs, options.max_num_batched_tokens);
  plan.limits.max_seq_len = max_len;
  const int64_t row_bytes = plan.config.vocab_size * static_cast<int64_t>(sizeof(float));
  plan.limits.max_logit_rows =
      std::clamp<int64_t>(options.max_logits_bytes / row_bytes, 1, options.max_num_batched_tokens);
  if (!plan.spec.has_head) plan.limits.max_logit_rows = 1;
}

}  // namespace

DType dominant_dtype(const TensorSource& source) {
  constexpr std::array kTypes = {DType::kBF16, DType::kF16, DType::kF32};
  std::array<int64_t, 3> bytes{};
  int64_t quantized_bytes = 0;
  for (const RawTensor& tensor : source.tensors()) {
    if (tensor.shape.size() < 2) continue;
    const auto size = static_cast<int64_t>(tensor.data.size());
    const auto* const type = std::ranges::find(kTypes, tensor.dtype);
    if (type == kTypes.end()) {
      quantized_bytes += size;
    } else if (tensor.name.ends_with(".weight")) {
      bytes[static_cast<size_t>(type - kTypes.begin())] += size;
    }
  }
  const auto most = std::ranges::max_element(bytes);
  const DType dtype = kTypes[static_cast<size_t>(most - bytes.begin())];
  return dtype == DType::kF32 && *most < quantized_bytes ? DType::kBF16 : dtype;
}

Result<ModelPlan> plan_model(const ModelRunnerOptions& options, const ModelConfig& config,
                             DType checkpoint_dtype) {
  ModelPlan plan;
  plan.config = config;
  QUIRE_RETURN_IF_ERROR(choose_types(options, checkpoint_dtype, plan));
  QUIRE_RETURN_IF_ERROR(check_sizes(options));
  QUIRE_RETURN_IF_ERROR(check_balance(options));
  const int64_t model_len = std::min(config.max_model_len(), kMaxModelLen);
  if (options.max_model_len > model_len) {
    return invalid_argument(
        "--max-model-len: expected at most {} (what the model was made for), got {}", model_len,
        options.max_model_len);
  }
  const int64_t max_len = options.max_model_len > 0 ? options.max_model_len : model_len;
  QUIRE_ASSIGN_OR_RETURN(plan.whole, make_decoder_spec(config, max_len, plan.dtype));
  QUIRE_RETURN_IF_ERROR(keep_first_layers(options.num_hidden_layers, plan));
  QUIRE_RETURN_IF_ERROR(check_ranks(plan.whole, options.share));
  QUIRE_RETURN_IF_ERROR(check_stages(plan.whole, options.stage.count));
  plan.staged = stage_of(plan.whole, options.stage);
  plan.spec = share_of(plan.staged, options.share);
  // Tensors without a slot here belong to another stage. The code that creates the stages checks
  // the whole model first.
  static constexpr std::string_view kEverything[] = {""};
  if (options.stage.count > 1) plan.config.names.ignored = kEverything;
  set_limits(options, max_len, plan);
  QUIRE_RETURN_IF_ERROR(check_adapters(options, plan.whole));
  if (!options.share.is_whole())
    plan.shared_bytes = RankExchange::shared_bytes(plan.whole, options.share, plan.limits);
  const int32_t state_blocks =
      (options.state_block_size + options.block_size - 1) / options.block_size;
  const KvPart part = {
      .share = options.share,
      .layers = options.stage.count == 1 ? kAllLayers : layers_of(plan.whole, options.stage)};
  plan.kv = make_kv_layout(plan.whole, options.block_size, plan.kv_dtype,
                           state_blocks * options.block_size, part);
  return plan;
}

}  // namespace quire
