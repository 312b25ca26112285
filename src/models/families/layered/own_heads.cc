// Models whose layers differ in their heads and in the width of their MLP: Nemotron's models that
// were pruned by a search (Super, Ultra, DeciLM), whose layers may lack attention or MLP, and
// OpenELM.
#include <algorithm>
#include <cmath>

#include "models/config_fields.h"
#include "models/family.h"
#include "models/model_config.h"
#include "models/standard_names.h"

namespace quire {
namespace {

constexpr IntRange kHeads{1, 4096};
constexpr int64_t kMaxWidth = int64_t{1} << 20;

// Reads a list of one number per layer; empty if there is none under `key`.
std::vector<int64_t> read_counts(const ConfigReader& reader, std::string_view key, int64_t min,
                                 int64_t max, const ModelConfig& config) {
  std::vector<int64_t> counts;
  if (!reader.has(key)) return counts;
  for (const double number : reader.numbers(key)) {
    const bool is_count = number == std::floor(number) && number >= static_cast<double>(min) &&
                          number <= static_cast<double>(max);
    if (!is_count)
      reader.fail(fmt::format("{}: expected integers in [{}, {}], got {}", key, min, max, number));
    counts.push_back(is_count ? static_cast<int64_t>(number) : min);
  }
  if (std::ssize(counts) != config.num_hidden_layers) {
    reader.fail(fmt::format("{}: expected num_hidden_layers = {} entries, got {}", key,
                            config.num_hidden_layers, counts.size()));
    counts.assign(static_cast<size_t>(config.num_hidden_layers), std::max<int64_t>(min, 1));
  }
  return counts;
}

// Sets the model's sizes to those of its widest layer, once all layers are known.
void take_widest(const ConfigReader& reader, ModelConfig& config) {
  for (size_t i = 0; i < config.layer_heads.size(); ++i) {
    if (config.layer_heads[i] % config.layer_kv_heads[i] == 0) continue;
    reader.fail(fmt::format("layer {}: expected KV heads that divide the {} query heads, got {}", i,
                            config.layer_heads[i], config.layer_kv_heads[i]));
  }
  config.num_attention_heads = std::ranges::max(config.layer_heads);
  config.num_key_value_heads = std::ranges::max(config.layer_kv_heads);
  if (!config.ffn_sizes.empty()) config.intermediate_size = std::ranges::max(config.ffn_sizes);
}

// In GGUF files, 0 heads mean no attention, and a width of 0 means no MLP.
bool read_gguf_layers(const ConfigReader& reader, ModelConfig& config) {
  const auto heads = read_counts(reader, "layer_num_heads", 0, kHeads.max, config);
  if (heads.empty()) return false;
  const auto kv_heads = read_counts(reader, "layer_num_kv_heads", 0, kHeads.max, config);
  const auto widths = read_counts(reader, "layer_intermediate_sizes", 0, kMaxWidth, config);
  if (kv_heads.empty() || widths.empty()) {
    reader.fail("head_count_kv, feed_forward_length: expected a number for each layer");
    return true;
  }
  for (size_t i = 0; i < heads.size(); ++i) {
    config.layer_parts[i] = {.attention = heads[i] > 0, .ffn = widths[i] > 0};
    if (heads[i] > 0 && kv_heads[i] == 0) {
      reader.fail(
          fmt::format("layer {}: expected KV heads for the {} query heads, got 0", i, heads[i]));
    }
    config.layer_heads.push_back(std::max<int64_t>(heads[i], 1));
    config.layer_kv_heads.push_back(std::max<int64_t>(kv_heads[i], 1));
    config.ffn_sizes.push_back(std::max<int64_t>(widths[i], 1));
  }
  take_widest(reader, config);
  return true;
}

constexpr std::string_view kDeciTypes[] = {"nemotron-nas", "deci"};

// The width of an MLP is a multiple of this.
constexpr int64_t kDeciUnit = 256;

int64_t deci_width(const ConfigReader& ffn, const ModelConfig& config) {
  if (ffn.has("intermediate_size")) return ffn.integer("intermediate_size", {1, kMaxWidth});
  const double factor = std::min(ffn.positive("ffn_mult", 1.0), 64.0);
  const auto width =
      static_cast<int64_t>(2.0 * factor * static_cast<double>(config.hidden_size) / 3.0);
  return (width + kDeciUnit - 1) / kDeciUnit * kDeciUnit;
}

void read_deci_block(const ConfigReader& block, size_t index, ModelConfig& config) {
  const std::optional<ConfigReader> attention = block.child("attention");
  const std::optional<ConfigReader> ffn = block.child("ffn");
  if (!attention || !ffn) {
    block.fail("expected attention and ffn");
    return;
  }
  for (const ConfigReader* part : {&*attention, &*ffn}) {
    if (part->boolean("replace_with_linear", false))
      part->fail("replace_with_linear: expected false, got true");
  }
  LayerParts& parts = config.layer_parts[index];
  parts.attention = !attention->boolean("no_op", false);
  parts.ffn = !ffn->boolean("no_op", false);
  const int64_t heads = config.num_attention_heads;
  const int64_t group = parts.attention ? attention->integer("n_heads_in_group", {1, heads}) : 1;
  if (heads % std::max<int64_t>(group, 1) != 0) {
    attention->fail(fmt::format(
        "n_heads_in_group: expected a divisor of num_attention_heads {}, got {}", heads, group));
  }
  if (parts.attention && attention->has("window_length"))
    attention->fail("window_length: expected null, got a number");
  config.layer_heads[index] = heads;
  config.layer_kv_heads[index] = std::max<int64_t>(heads / std::max<int64_t>(group, 1), 1);
  config.ffn_sizes[index] = parts.ffn ? deci_width(*ffn, config) : 1;
}

void read_deci(const ConfigReader& reader, ModelConfig& config) {
  if (read_gguf_layers(reader, config)) return;
  const auto layers = static_cast<size_t>(config.num_hidden_layers);
  config.layer_heads.assign(layers, config.num_attention_heads);
  if (reader.has("num_key_value_heads_per_layer")) {  // DeciLM
    config.layer_kv_heads =
        read_counts(reader, "num_key_value_heads_per_layer", 1, kHeads.max, config);
    return take_widest(reader, config);
  }
  const std::vector<ConfigReader> blocks = reader.children("block_configs");
  if (blocks.size() != layers) {
    reader.fail(fmt::format("block_configs: expected num_hidden_layers = {} entries, got {}",
                            layers, blocks.size()));
    return;
  }
  config.layer_kv_heads.assign(layers, 1);
  config.ffn_sizes.assign(layers, 1);
  for (size_t i = 0; i < layers; ++i) read_deci_block(blocks[i], i, config);
  take_widest(reader, config);
}

constexpr std::string_view kOpenElmTypes[] = {"openelm"};
constexpr KeyAlias kOpenElmAliases[] = {{"num_hidden_layers", "num_transformer_layers"},
                                        {"hidden_size", "model_dim"},
                                        {"hidden_act", "activation_fn_name"},
                                        {"max_position_embeddings", "max_context_length"},
                                        {"rope_theta", "rope_freq_constant"},
                                        {"tie_word_embeddings", "share_input_output_layers"}};
constexpr NameMapEntry kOpenElmEntries[] = {
    {TensorRole::kTokenEmbedding, "token_embeddings"},
    {TensorRole::kInputNorm, "layers.{}.attn_norm"},
    {TensorRole::kQkv, "layers.{}.attn.qkv_proj"},
    {TensorRole::kQNorm, "layers.{}.attn.q_norm"},
    {TensorRole::kKNorm, "layers.{}.attn.k_norm"},
    {TensorRole::kO, "layers.{}.attn.out_proj"},
    {TensorRole::kPreMlpNorm, "layers.{}.ffn_norm"},
    {TensorRole::kGateUp, "layers.{}.ffn.proj_1"},
    {TensorRole::kDown, "layers.{}.ffn.proj_2"},
};
constexpr NamePrefix kOpenElmPrefixes[] = {{"transformer.", ""}, {"", ""}};
constexpr NameMap kOpenElmNames{kOpenElmEntries, kOpenElmPrefixes, kIgnoredTensors, 0.0f,
                                &kLlamaNames};

// Returns the multiple of `unit` that is nearest to `width`, or the next one if that is below 90 %
// of it.
int64_t nearest_multiple(double width, int64_t unit) {
  const auto half = static_cast<double>(unit) / 2.0;
  const int64_t nearest = std::max(unit, static_cast<int64_t>(width + half) / unit * unit);
  return static_cast<double>(nearest) < 0.9 * width ? nearest + unit : nearest;
}

void read_openelm(const ConfigReader& reader, ModelConfig& config) {
  if (read_gguf_layers(reader, config)) return;
  for (const std::string_view key : {"ffn_with_glu", "normalize_qk_projections"}) {
    if (!reader.boolean(key, true)) reader.fail(fmt::format("{}: expected true, got false", key));
  }
  if (const std::string norm = reader.string("normalization_layer_name", "rms_norm");
      norm != "rms_norm")
    reader.fail(fmt::format("normalization_layer_name: expected rms_norm, got {}", norm));
  config.layer_heads = read_counts(reader, "num_query_heads", 1, kHeads.max, config);
  config.layer_kv_heads = read_counts(reader, "num_kv_heads", 1, kHeads.max, config);
  const std::vector<double> factors = reader.numbers("ffn_multipliers");
  const auto layers = static_cast<size_t>(config.num_hidden_layers);
  if (config.layer_heads.empty() || config.layer_kv_heads.empty() || factors.size() != layers) {
    reader.fail(fmt::format(
        "num_query_heads, num_kv_heads, ffn_multipliers: expected num_transformer_layers = {} "
        "entries each",
        layers));
    return;
  }
  const int64_t unit = reader.integer("ffn_dim_divisor", {1, 65536}, 256);
  for (const double factor : factors) {
    const double width = std::clamp(factor, 0.0, 64.0) * static_cast<double>(config.hidden_size);
    config.ffn_sizes.push_back(nearest_multiple(width, unit));
  }
  take_widest(reader, config);
}

}  // namespace

const Family& deci_family() {
  static constexpr Family family{
      .name = "nemotron-nas",
      .model_types = kDeciTypes,
      .gguf_architecture = "deci",
      .defaults = {.vocab_size = 128256,
                   .hidden_size = 8192,
                   .intermediate_size = 21504,  // of models whose blocks do not state it
                   .num_hidden_layers = 80,
                   .num_attention_heads = 64,
                   .max_position_embeddings = 131072,
                   .norm_eps = 1e-5},
      .has_own_heads = true,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .mlp_bias = BiasRule::kConfig,
      .read_more = read_deci,
      .hf_names = kLlamaNames,
      .gguf_names = kGgufNames,
      .gguf_rope_style = RopeStyle::kInterleaved,  // its q and k rows are stored permuted
  };
  return family;
}

const Family& openelm_family() {
  static constexpr Family family{
      .name = "openelm",
      .model_types = kOpenElmTypes,
      .gguf_architecture = "openelm",
      .defaults = {.vocab_size = 32000,
                   .hidden_size = 2048,
                   .intermediate_size = 8192,
                   .num_hidden_layers = 12,
                   .num_attention_heads = 12,
                   .head_dim = 128,
                   .max_position_embeddings = 2048,
                   .tie_word_embeddings = true},
      .aliases = kOpenElmAliases,
      .has_own_heads = true,
      .qk_norm = QkNorm::kHead,
      .read_more = read_openelm,
      .hf_names = kOpenElmNames,
      .gguf_names = kGgufNames,
  };
  return family;
}

}  // namespace quire
