#include "exec/model_loading.h"

#include <utility>

#include "models/shapes.h"

namespace quire {

int64_t ModelLoading::weight_bytes(const DecoderWeights& weights) const {
  return source ? checkpoint.arena_bytes() : slots_arena_bytes(weights.slots());
}

Status prepare_model(const ModelRunnerOptions& options, ModelPlan& plan,
                     std::unique_ptr<DecoderWeights>& weights, ModelLoading& loading) {
  if ((options.files != nullptr) == !options.shape.empty()) {
    return invalid_argument("model: expected either files or the name of a shape");
  }
  ModelConfig config;
  DType checkpoint_dtype = DType::kBF16;
  if (options.files != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(loading.source, TensorSource::open(*options.files));
    QUIRE_ASSIGN_OR_RETURN(config, read_model_config(*options.files, *loading.source));
    checkpoint_dtype = dominant_dtype(*loading.source);
  } else {
    QUIRE_ASSIGN_OR_RETURN(config, model_shape(options.shape));
  }
  QUIRE_ASSIGN_OR_RETURN(plan, plan_model(options, config, checkpoint_dtype));
  weights = std::make_unique<DecoderWeights>(
      plan.spec, WeightOptions{plan.dtype, plan.compute, plan.quant_compute, plan.layer_packing});
  if (!loading.source) return {};
  Result<LoadPlan> resolved = resolve_checkpoint(weights->slots(), checkpoint_names(plan.config),
                                                 plan.config.quantization, *loading.source);
  if (!resolved.ok()) return resolved.status().with_context(options.files->source());
  loading.checkpoint = std::move(*resolved);
  return {};
}

Status load_weights(Stream& stream, ThreadTeam* team, const ModelRunnerOptions& options,
                    const ModelLoading& loading, const DecoderWeights& weights, Arena& arena) {
  if (!loading.source) {
    fill_random(stream, weights.slots(), arena);
    return {};
  }
  // What lies in memory and not in a file must not be given back: it would be gone.
  const bool is_mapped = options.files->source() != "<memory>";
  return load_checkpoint(
      stream, loading.checkpoint, arena,
      {.on_progress = options.on_progress, .release_pages = is_mapped, .team = team});
}

}  // namespace quire
