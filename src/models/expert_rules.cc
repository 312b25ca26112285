#include "models/expert_rules.h"

#include <algorithm>
#include <cmath>

#include "models/config_fields.h"

namespace quire {
namespace {

constexpr IntRange kWidth{1, int64_t{1} << 20};
constexpr IntRange kLayerNumber{0, 4096};

std::optional<int64_t> nonzero(int64_t value) {
  return value == 0 ? std::nullopt : std::optional<int64_t>(value);
}

void read_router(const ConfigReader& reader, const ModelConfig& config, RouterSpec& router) {
  const ExpertRules& rules = *config.family->experts;
  router = rules.router;
  router.num_experts = static_cast<int32_t>(
      reader.integer("num_experts", {1, kMaxExperts}, nonzero(rules.router.num_experts)));
  router.experts_per_token = static_cast<int32_t>(reader.integer(
      "num_experts_per_tok", {1, std::min(std::max(router.num_experts, 1), kMaxExpertsPerToken)},
      nonzero(rules.router.experts_per_token)));
  if (rules.normalizes && reader.boolean("norm_topk_prob", *rules.normalizes)) {
    router.weight = RouterWeight::kNormalized;
  }
  router.scale = static_cast<float>(reader.positive("routed_scaling_factor", router.scale));
  router.min_sum =
      static_cast<float>(reader.optional_positive("moe_norm_min").value_or(double{router.min_sum}));
  if (router.weight == RouterWeight::kSparseMixer) {
    router.jitter = static_cast<float>(reader.positive("router_jitter_noise", router.jitter));
    if (router.experts_per_token > 2) {
      reader.fail(
          fmt::format("num_experts_per_tok: expected 1 or 2 experts for this router, got {}",
                      router.experts_per_token));
    }
  }
}

void read_groups(const ConfigReader& reader, RouterSpec& router) {
  if (!reader.has("n_group")) return;
  const int32_t experts = std::max(router.num_experts, 1);
  router.num_groups = static_cast<int32_t>(reader.integer("n_group", {1, experts}, 1));
  router.groups_per_token =
      static_cast<int32_t>(reader.integer("topk_group", {1, router.num_groups}, 1));
  if (experts % router.num_groups != 0) {
    reader.fail(fmt::format("n_group: expected a divisor of the {} experts, got {}", experts,
                            router.num_groups));
    return;
  }
  const int32_t candidates = experts / router.num_groups * router.groups_per_token;
  if (router.experts_per_token > candidates) {
    reader.fail(fmt::format("topk_group: expected groups of at least {} experts in all, got {}",
                            router.experts_per_token, candidates));
  }
}

std::vector<bool> read_layers(const ConfigReader& reader, const ModelConfig& config) {
  const ExpertRules& rules = *config.family->experts;
  const int64_t count = config.num_hidden_layers;
  std::vector<bool> layers(static_cast<size_t>(count), false);
  int64_t first = 0, last = count - 1, step = 1;
  switch (rules.layers) {
    case ExpertLayers::kAll:
      break;
    case ExpertLayers::kSparseStep:
      step = reader.integer("decoder_sparse_step", {1, kLayerNumber.max}, 1);
      first = step - 1;
      break;
    case ExpertLayers::kAfterDense:
      first = reader.integer("first_k_dense_replace", kLayerNumber, rules.first_layer);
      break;
    case ExpertLayers::kInterval:
      // Layer i has experts when (i + 1) is a multiple of the interval.
      step = reader.integer("moe_layer_interval", {1, kLayerNumber.max}, 1);
      first = reader.integer("moe_layer_start_index", kLayerNumber, rules.first_layer);
      first = (first + step) / step * step - 1;
      last = reader.integer("moe_layer_end_index", {-1, kLayerNumber.max}, -1);
      if (last < 0) last = count - 1;
      break;
  }
  for (int64_t i = first; i <= last && i < count; i += step) layers[static_cast<size_t>(i)] = true;
  if (rules.layers != ExpertLayers::kSparseStep) return layers;
  for (const double layer : reader.numbers("mlp_only_layers")) {
    if (!(layer >= 0.0 && layer < static_cast<double>(count)) || layer != std::floor(layer)) {
      reader.fail(
          fmt::format("mlp_only_layers: expected layers from 0 to {}, got {}", count - 1, layer));
      return layers;
    }
    layers[static_cast<size_t>(layer)] = false;
  }
  return layers;
}

int64_t read_shared_size(const ConfigReader& reader, const ModelConfig& config,
                         int64_t expert_size) {
  const ExpertRules& rules = *config.family->experts;
  switch (rules.shared) {
    case SharedExperts::kNone:
      break;
    case SharedExperts::kSize:
      return reader.integer("shared_expert_intermediate_size", {0, kWidth.max},
                            rules.shared_default);
    case SharedExperts::kCount: {
      const int64_t size = expert_size * reader.integer("num_shared_experts", {0, kMaxExperts},
                                                        rules.shared_default);
      if (size > kWidth.max) {
        reader.fail(fmt::format("num_shared_experts: expected at most {} wide in all, got {}",
                                kWidth.max, size));
      }
      return size;
    }
  }
  return 0;
}

}  // namespace

void read_mlp_layer_types(const ConfigReader& reader, ModelConfig& config) {
  if (!reader.has("mlp_layer_types")) return;
  const std::vector<std::string> types = reader.strings("mlp_layer_types");
  if (static_cast<int64_t>(types.size()) != config.num_hidden_layers) {
    reader.fail(fmt::format("mlp_layer_types: expected num_hidden_layers = {} entries, got {}",
                            config.num_hidden_layers, types.size()));
    return;
  }
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] != "dense" && types[i] != "sparse")
      reader.fail(fmt::format("mlp_layer_types: expected dense or sparse, got {}", types[i]));
    config.experts.layers[i] = types[i] == "sparse";
  }
}

void read_experts(const ConfigReader& reader, ModelConfig& config) {
  const ExpertRules* rules = config.family->experts;
  if (rules == nullptr) return;
  const bool has_none = rules->may_have_none && reader.integer("num_experts", {0, kMaxExperts},
                                                               rules->router.num_experts) == 0;
  if (has_none) return;
  ExpertsConfig& experts = config.experts;
  ExpertsSpec& spec = experts.spec;
  read_router(reader, config, spec.router);
  read_groups(reader, spec.router);
  const int64_t width =
      rules->intermediate_size > 0 ? rules->intermediate_size : config.intermediate_size;
  spec.intermediate_size = reader.integer("moe_intermediate_size", kWidth, width);
  spec.activation.activation = config.activation;
  spec.bias = rules->expert_bias;
  spec.router_bias = rules->router_bias;
  spec.has_correction = rules->has_correction;
  spec.weighs_inputs = rules->weighs_inputs;
  if (rules->weighs_inputs && spec.router.experts_per_token != 1) {
    reader.fail(fmt::format("num_experts_per_tok: expected 1 for this router, got {}",
                            spec.router.experts_per_token));
  }
  if (rules->has_clamp) {
    constexpr double kAlpha = 1.702;  // the factor in kQuickGelu
    const double alpha = reader.positive("swiglu_alpha", kAlpha);
    if (std::abs(alpha - kAlpha) > 1e-6) {
      reader.fail(fmt::format("swiglu_alpha: expected {}, got {}", kAlpha, alpha));
    }
    spec.activation = {.activation = Activation::kQuickGelu,
                       .has_clamp = true,
                       .limit = static_cast<float>(reader.positive("swiglu_limit", 7.0))};
  }
  experts.layers = read_layers(reader, config);
  experts.shared_intermediate_size = read_shared_size(reader, config, spec.intermediate_size);
  spec.has_shared_router = rules->has_shared_router && experts.shared_intermediate_size > 0;
  constexpr int64_t kMaxElements = int64_t{1} << 40;
  const int64_t elements = config.hidden_size * spec.intermediate_size * spec.router.num_experts;
  if (elements > kMaxElements) {
    reader.fail(
        fmt::format("num_experts {}, moe_intermediate_size {}: expected at most 2^40 "
                    "elements in a layer, got {}",
                    spec.router.num_experts, spec.intermediate_size, elements));
  }
}

}  // namespace quire
