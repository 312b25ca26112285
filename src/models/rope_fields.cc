#include <cmath>
#include <string>

#include "models/config_fields.h"

namespace quire {
namespace {

struct TypeName {
  std::string_view name;
  RopeType type;
};
constexpr TypeName kTypes[] = {
    {"default", RopeType::kDefault},
    {"linear", RopeType::kLinear},
    {"dynamic", RopeType::kDynamic},
    {"yarn", RopeType::kYarn},
    {"llama3", RopeType::kLlama3},
    {"longrope", RopeType::kLongRope},
    {"su", RopeType::kLongRope},    // LongRoPE's name in the first Phi-3 checkpoints
    {"mrope", RopeType::kDefault},  // for text, it has no effect
    {"proportional", RopeType::kProportional},
    {"ntk", RopeType::kDefault},  // a larger base and divisors (apply_ntk())
};

RopeType read_type(const ConfigReader& reader) {
  const std::string name = reader.string("rope_type", reader.string("type", "default"));
  for (const TypeName& known : kTypes) {
    if (known.name == name) return known.type;
  }
  reader.fail(
      fmt::format("rope_type: expected one of default, linear, dynamic, yarn, llama3, longrope, "
                  "proportional; got {}",
                  name));
  return RopeType::kDefault;
}

// `model` has the fields around the scaling, where older files have some of its keys.
RopeConfig read_scaling(const ConfigReader& reader, const ConfigReader& model,
                        const ModelConfig& config) {
  RopeConfig rope;
  rope.type = read_type(reader);
  // Phi-3 has only one kind of scaling, which its lists of factors identify.
  if (rope.type == RopeType::kYarn && reader.has("short_factor")) rope.type = RopeType::kLongRope;
  rope.max_position_embeddings = config.max_position_embeddings;
  constexpr std::string_view kOriginal = "original_max_position_embeddings";
  const int64_t inner =
      reader.integer(kOriginal, {1, kMaxPositions}, config.max_position_embeddings);
  rope.original_max_position_embeddings = model.integer(kOriginal, {1, kMaxPositions}, inner);
  const double ratio = static_cast<double>(config.max_position_embeddings) /
                       static_cast<double>(rope.original_max_position_embeddings);
  switch (rope.type) {
    case RopeType::kDefault:
      break;
    case RopeType::kProportional:
      rope.factor = reader.positive("factor", 1.0);
      break;
    case RopeType::kYarn:
    case RopeType::kLongRope:
      rope.factor = reader.positive("factor", ratio);
      break;
    default:
      rope.factor = reader.positive("factor");
      break;
  }
  rope.attention_factor = reader.optional_positive("attention_factor");
  // The key of Phi-3.5-MoE's factor names the regime to which it applies.
  if (const auto mscale = reader.optional_positive("long_mscale")) {
    if (reader.optional_positive("short_mscale") != mscale)
      reader.fail("short_mscale: expected the same as long_mscale");
    rope.attention_factor = mscale;
  }
  if (rope.type == RopeType::kYarn) {
    rope.beta_fast = reader.positive("beta_fast", 32.0);
    rope.beta_slow = reader.positive("beta_slow", 1.0);
    rope.mscale = reader.optional_positive("mscale");
    rope.mscale_all_dim = reader.optional_positive("mscale_all_dim");
    rope.truncate = reader.boolean("truncate", config.family->defaults.rope_truncates);
  }
  if (rope.type == RopeType::kLlama3) {
    rope.low_freq_factor = reader.positive("low_freq_factor");
    rope.high_freq_factor = reader.positive("high_freq_factor");
  }
  for (const double section : reader.numbers("mrope_section")) {
    const bool is_count = section >= 0 && section <= 1 << 16 && section == std::floor(section);
    if (!is_count) reader.fail(fmt::format("mrope_section: expected counts, got {}", section));
    rope.sections.push_back(is_count ? static_cast<int64_t>(section) : -1);
  }
  rope.sections_in_turn = reader.boolean("mrope_interleaved", config.family->has_sections_in_turn);
  rope.short_factor = reader.numbers("short_factor");
  rope.long_factor = reader.numbers("long_factor");
  return rope;
}

void finish(const ConfigReader& scaling, const ConfigReader& model, const ModelConfig& config,
            RopeConfig& rope) {
  const FamilyDefaults& defaults = config.family->defaults;
  rope.backwards = config.family->rotates_backwards;
  rope.theta = scaling.positive("rope_theta", model.positive("rope_theta", defaults.rope_theta));
  // ChatGLM states a factor on the base.
  rope.theta *= model.positive("rope_ratio", 1.0);
  // MiniMax states the dimension itself.
  const double share = model.has("rotary_dim")
                           ? model.positive("rotary_dim") / static_cast<double>(config.head_dim)
                           : defaults.partial_rotary_factor;
  rope.partial_rotary_factor =
      scaling.positive("partial_rotary_factor", model.positive("partial_rotary_factor", share));
  if (rope.partial_rotary_factor > 1.0) {
    model.fail(fmt::format("partial_rotary_factor: expected at most 1, got {}",
                           rope.partial_rotary_factor));
  }
}

// Hunyuan's "dynamic" scaling with an alpha only enlarges the base.
void apply_alpha(const ConfigReader& scaling, ModelConfig& config) {
  const std::optional<double> alpha = scaling.optional_positive("alpha");
  if (!alpha || config.rope.type != RopeType::kDynamic || config.head_dim <= 2) return;
  const auto dim = static_cast<double>(config.head_dim);
  config.rope.theta *= std::pow(*alpha, dim / (dim - 2.0));
  config.rope.type = RopeType::kDefault;
}

// GTE's scaling: every frequency is that of a base which is `factor` times as large, divided by one
// number.
void apply_ntk(const ConfigReader& scaling, ModelConfig& config) {
  if (scaling.string("rope_type", scaling.string("type", "")) != "ntk") return;
  if (scaling.has("mixed_b")) return scaling.fail("mixed_b: expected none");
  const double factor = scaling.positive("factor");
  const auto pairs = static_cast<size_t>(config.head_dim / 2);
  config.rope.theta *= factor;
  config.rope.freq_factors.assign(pairs,
                                  std::pow(factor, 2.0 / static_cast<double>(config.head_dim)));
}

}  // namespace

void read_rotating_layers(const ConfigReader& reader, ModelConfig& config) {
  const int64_t interval = reader.integer("no_rope_layer_interval", {1, 4096}, 4);
  const std::vector<double> rotates = reader.numbers("no_rope_layers");
  if (!rotates.empty() && rotates.size() != config.layer_rope.size()) {
    reader.fail(fmt::format("no_rope_layers: expected num_hidden_layers = {} entries, got {}",
                            config.layer_rope.size(), rotates.size()));
    return;
  }
  for (size_t i = 0; i < config.layer_rope.size(); ++i) {
    config.layer_rope[i] =
        rotates.empty() ? (static_cast<int64_t>(i) + 1) % interval != 0 : rotates[i] != 0.0;
  }
}

void read_rope(const ConfigReader& reader, ModelConfig& config) {
  const FamilyDefaults& defaults = config.family->defaults;
  // If a file has both keys, the older one was added by hand to lengthen the context.
  const std::string_view first = config.family->has_local_rope ? "rope_parameters" : "rope_scaling";
  std::optional<ConfigReader> parameters = reader.child(first);
  if (!parameters) {
    parameters = reader.child(config.family->has_local_rope ? "rope_scaling" : "rope_parameters");
  }
  const boost::json::object nothing;
  Status ignored;
  const ConfigReader empty(nothing, "", {}, ignored);

  std::optional<ConfigReader> global = parameters;
  std::optional<ConfigReader> local;
  if (parameters && (parameters->has("full_attention") || parameters->has("sliding_attention"))) {
    global = parameters->child("full_attention");
    local = parameters->child("sliding_attention");
  }
  const ConfigReader& scaling = global ? *global : empty;
  config.rope = read_scaling(scaling, reader, config);
  finish(scaling, reader, config, config.rope);
  apply_alpha(scaling, config);
  config.rope.freq_factors = reader.numbers("rope_freq_factors");
  apply_ntk(scaling, config);
  if (!config.family->has_local_rope) return;

  config.local_rope = local ? read_scaling(*local, empty, config) : RopeConfig{};
  const double local_theta = reader.positive("rope_local_base_freq", defaults.local_rope_theta);
  config.local_rope.theta = local ? local->positive("rope_theta", local_theta) : local_theta;
}

}  // namespace quire
