#include "models/state_rules.h"

#include <algorithm>
#include <string>

#include "models/model_config.h"

namespace quire {
namespace {

constexpr IntRange kSize{1, 1 << 20};

}  // namespace

bool read_layer_words(const ConfigReader& reader, std::string_view key,
                      std::span<const LayerWord> words, ModelConfig& config) {
  if (!reader.has(key)) return false;
  const std::vector<std::string> types = reader.strings(key);
  if (static_cast<int64_t>(types.size()) != config.num_hidden_layers) {
    reader.fail(fmt::format("{}: expected num_hidden_layers = {} entries, got {}", key,
                            config.num_hidden_layers, types.size()));
    return true;
  }
  for (size_t i = 0; i < types.size(); ++i) {
    const auto known = std::find_if(words.begin(), words.end(),
                                    [&](const LayerWord& word) { return word.word == types[i]; });
    if (known == words.end()) {
      std::string list;
      for (const LayerWord& word : words) list.append(list.empty() ? "" : ", ").append(word.word);
      reader.fail(fmt::format("{}: expected one of {}, got {}", key, list, types[i]));
      return true;
    }
    config.layer_parts[i] = known->parts;
  }
  return true;
}

bool read_layer_types(const ConfigReader& reader, std::span<const LayerWord> words,
                      ModelConfig& config) {
  return read_layer_words(reader, "layer_types", words, config) ||
         read_layer_words(reader, "layers_block_type", words, config);
}

void read_layer_numbers(const ConfigReader& reader, std::string_view key, LayerParts others,
                        LayerParts listed, ModelConfig& config) {
  const auto count = static_cast<double>(config.num_hidden_layers);
  config.layer_parts.assign(config.layer_parts.size(), others);
  for (const double layer : reader.numbers(key)) {
    if (!(layer >= 0.0 && layer < count)) {
      reader.fail(fmt::format("{}: expected layers from 0 to {}, got {}", key, count - 1, layer));
      return;
    }
    config.layer_parts[static_cast<size_t>(layer)] = listed;
  }
}

int64_t read_integer_or_auto(const ConfigReader& reader, std::string_view key,
                             int64_t default_value) {
  const bool is_auto = reader.is_string(key) && reader.string(key, "") == "auto";
  return is_auto ? default_value : reader.integer(key, kSize, default_value);
}

int32_t read_conv_kernel(const ConfigReader& reader, std::string_view key, int64_t default_value,
                         int64_t min) {
  return static_cast<int32_t>(reader.integer(key, {min, kMaxConvKernel}, default_value));
}

StateSpec read_ssd(const ConfigReader& reader, const SsdKeys& keys, const SsdDefaults& defaults,
                   double norm_eps) {
  StateSpec state{.kind = StateKind::kSsd};
  state.conv_kernel = read_conv_kernel(reader, keys.conv_kernel, defaults.conv_kernel);
  state.conv_bias = reader.boolean(keys.conv_bias, true);
  state.proj_bias = state.out_bias = reader.boolean(keys.proj_bias, false);
  state.num_heads =
      static_cast<int32_t>(reader.integer(keys.num_heads, {1, 1 << 16}, defaults.num_heads));
  state.num_key_heads = static_cast<int32_t>(
      reader.integer(keys.num_groups, {1, state.num_heads}, defaults.num_groups));
  state.value_dim = read_integer_or_auto(reader, keys.head_dim, defaults.head_dim);
  state.key_dim = reader.integer(keys.num_states, {1, kMaxScanStates}, defaults.num_states);
  if (state.num_heads % state.num_key_heads != 0) {
    reader.fail(fmt::format("{}: expected a multiple of {} {}, got {}", keys.num_heads,
                            keys.num_groups, state.num_key_heads, state.num_heads));
  }
  if (state.inner_size() > kSize.max) {
    reader.fail(fmt::format("{} * {}: expected at most {}, got {}", keys.num_heads, keys.head_dim,
                            kSize.max, state.inner_size()));
  }
  const std::vector<double> limit = reader.numbers("time_step_limit");
  if (limit.size() == 2) {
    state.min_step = static_cast<float>(limit[0]);
    state.max_step = static_cast<float>(std::min(limit[1], 3.4e38));
  }
  state.gate = Gate::kSilu;
  state.gate_first = true;
  state.has_norm = true;
  state.norm_group = state.inner_size() / state.num_key_heads;
  state.norm_eps = static_cast<float>(norm_eps);
  return state;
}

}  // namespace quire
