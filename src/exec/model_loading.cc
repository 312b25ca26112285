#include "exec/model_loading.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/log.h"
#include "models/family.h"
#include "models/pooling_config.h"
#include "models/shapes.h"
#include "weights/adapters/lora_files.h"
#include "weights/cache_scales.h"
#include "weights/latent_heads.h"
#include "weights/unstack.h"

namespace quire {
namespace {

// Reads the scales that the checkpoint was calibrated to into the layout of an fp8 cache.
Status read_scales(const TensorSource& source, const RankShare& share, ModelPlan& plan) {
  std::vector<int32_t> num_kv_heads;  // of the checkpoint
  for (const LayerSpec& layer : plan.whole.layers)
    num_kv_heads.push_back(layer.attention.num_kv_heads);
  QUIRE_ASSIGN_OR_RETURN(CacheScales scales,
                         read_cache_scales(checkpoint_names(plan.config), source, num_kv_heads));
  // e5m2 has the range of float16 and needs no scales.
  if (scales.num_layers_without_scale > 0 && plan.kv_dtype == DType::kF8E4M3) {
    log_warn(
        "--kv-cache-dtype fp8_e4m3: the checkpoint has no k_scale and v_scale for {} of {} layers; "
        "1 is used there",
        scales.num_layers_without_scale, plan.spec.layers.size());
  }
  const auto own = [&](const std::vector<float>& all) {
    std::vector<float> kept;
    auto layer_scales = all.begin();
    for (const LayerSpec& layer : plan.whole.layers) {
      const RowRange heads = share_of(layer.attention, share).kv_heads;
      kept.insert(kept.end(), layer_scales + heads.begin, layer_scales + heads.end);
      layer_scales += layer.attention.num_kv_heads;
    }
    return kept;
  };
  plan.kv.key_scales = own(scales.key);
  plan.kv.value_scales = own(scales.value);
  return {};
}

Status split_latents(const ModelConfig& config, ModelLoading& loading) {
  QUIRE_ASSIGN_OR_RETURN(
      SplitSource split,
      split_latent_heads(std::move(*loading.source), checkpoint_names(config), config.quantization,
                         {.num_heads = config.num_attention_heads,
                          .key_rows = config.latent.nope_dim,
                          .value_rows = config.latent.value_dim,
                          .rank = config.latent.rank}));
  loading.source = std::move(split.source);
  std::ranges::move(split.memory, std::back_inserter(loading.memory));
  return {};
}

}  // namespace

int64_t ModelLoading::weight_bytes(const DecoderWeights& weights,
                                   const WeightPacking& packing) const {
  return source ? checkpoint.arena_bytes() : slots_arena_bytes(weights.slots(), packing);
}

Status prepare_model(const ModelRunnerOptions& options, WeightPacking& packing, ModelPlan& plan,
                     std::unique_ptr<DecoderWeights>& weights, ModelLoading& loading) {
  if ((options.files != nullptr) == !options.shape.empty()) {
    return invalid_argument("model: expected either files or the name of a shape");
  }
  ModelConfig config;
  DType checkpoint_dtype = DType::kBF16;
  if (options.draft_head != nullptr) {
    loading.source = options.draft_head->source;
    config = options.draft_head->config;
    checkpoint_dtype = dominant_dtype(*loading.source);
  } else if (options.files != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(loading.source, TensorSource::open(*options.files));
    QUIRE_ASSIGN_OR_RETURN(config, read_model_config(*options.files, *loading.source));
    checkpoint_dtype = dominant_dtype(*loading.source);
  } else {
    QUIRE_ASSIGN_OR_RETURN(config, model_shape(options.shape));
  }
  if (loading.source && options.draft_head == nullptr) {
    QUIRE_ASSIGN_OR_RETURN(
        ModuleTensors tensors,
        with_sentence_modules(*options.files, config, std::move(*loading.source)));
    loading.source = std::move(tensors.source);
    loading.memory = std::move(tensors.memory);
  }
  QUIRE_ASSIGN_OR_RETURN(plan, plan_model(options, config, checkpoint_dtype));
  weights = std::make_unique<DecoderWeights>(plan.staged, weight_options(options, plan));
  if (!loading.source) return choose_packing(weights->slots(), packing);
  loading.source = unstack_experts(*loading.source, checkpoint_names(plan.config),
                                   plan.config.experts.spec.router.num_experts);
  if (plan.whole.has_latents()) {
    Status status = split_latents(plan.config, loading);
    if (!status.ok()) return status.with_context(options.files->source());
  }
  Result<LoadPlan> resolved =
      resolve_checkpoint(weights->slots(), checkpoint_names(plan.config), plan.config.quantization,
                         *loading.source, packing);
  if (!resolved.ok()) return resolved.status().with_context(options.files->source());
  loading.checkpoint = std::move(*resolved);
  if (is_fp8(plan.kv_dtype)) {
    Status status = read_scales(*loading.source, options.share, plan);
    if (!status.ok()) return status.with_context(options.files->source());
  }
  return {};
}

WeightOptions weight_options(const ModelRunnerOptions& options, const ModelPlan& plan) {
  return {plan.dtype,         plan.compute,  plan.quant_compute,
          plan.layer_packing, options.share, options.stage.is_first()};
}

Result<ThreadTeam> start_team(const ModelRunnerOptions& options) {
  return ThreadTeam::create({.num_threads = options.threads, .pin = options.pin_threads});
}

Status load_weights(WeightPacking& packing, ThreadTeam* team, const ModelRunnerOptions& options,
                    const ModelLoading& loading, const DecoderWeights& weights, Arena& arena) {
  if (!loading.source) return fill_random(packing, weights.slots(), arena);
  // Pages may be given back only if the weights lie in files: memory would be lost.
  bool is_mapped = options.files->source() != "<memory>";
  if (options.draft_head != nullptr) {
    for (const auto& files : options.draft_head->files) is_mapped &= files->source() != "<memory>";
  }
  return load_checkpoint(
      loading.checkpoint, arena,
      {.on_progress = options.on_progress, .release_pages = is_mapped, .team = team});
}

Result<std::shared_ptr<LoadedAdapter>> read_adapter(const std::string& name,
                                                    const std::string& path,
                                                    const AdapterReading& reading) {
  const ModelRunnerOptions& options = reading.options;
  const ModelPlan& plan = reading.plan;
  if (options.max_adapters == 0)
    return unimplemented("adapters: expected --enable-lora, without which there are none");
  AdapterSlot slot = AdapterSlot::take(reading.in_use, options.max_adapters);
  if (slot.is_empty()) {
    return resource_exhausted("adapters: {} are loaded or still in use, at most {} fit",
                              options.max_adapters, options.max_adapters);
  }
  QUIRE_ASSIGN_OR_RETURN(const LoraFiles files, LoraFiles::open(path));
  if (files.max_rank() > options.max_lora_rank) {
    return invalid_argument("{}: expected ranks of at most {} (--max-lora-rank), got {}", path,
                            options.max_lora_rank, files.max_rank());
  }
  const Family& family = *plan.config.family;
  const bool is_gguf = plan.config.format == CheckpointFormat::kGguf;
  LoraOptions lora = reading.lora;
  lora.dtype = plan.dtype;
  lora.compute = plan.compute;
  lora.pairs_rows = is_gguf && family.gguf_rope_style != family.rope_style;
  lora.max_bytes = plan.memory.adapters - reading.in_use->num_bytes;
  QUIRE_ASSIGN_OR_RETURN(LoraWeights weights,
                         LoraWeights::load(files, reading.weights, family.hf_names, lora));
  if (!slot.take_bytes(weights.num_bytes(), plan.memory.adapters)) {
    return resource_exhausted("{}: the adapter takes {} MiB, more than is left of --lora-memory",
                              path, (weights.num_bytes() >> 20) + 1);
  }
  auto adapter = std::make_shared<LoadedAdapter>(std::move(slot), std::move(weights));
  adapter->name = name;
  adapter->content_key = files.digest();
  return adapter;
}

}  // namespace quire
