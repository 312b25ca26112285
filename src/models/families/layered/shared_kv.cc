#include "models/families/layered/shared_kv.h"

#include "models/config_reader.h"
#include "models/model_config.h"

namespace quire {

void read_shared_kv(const ConfigReader& reader, ModelConfig& config, int64_t default_count) {
  const int64_t layers = config.num_hidden_layers;
  const int64_t shared = reader.integer("num_kv_shared_layers", {0, layers - 1}, default_count);
  const auto first = static_cast<size_t>(layers - std::min(shared, layers - 1));
  config.kv_layers.assign(static_cast<size_t>(layers), -1);
  for (size_t i = first; i < config.kv_layers.size(); ++i) {
    for (size_t j = 0; j < first; ++j) {
      if (config.layer_windows[j] == config.layer_windows[i])
        config.kv_layers[i] = static_cast<int32_t>(j);
    }
    if (config.kv_layers[i] >= 0) continue;
    reader.fail(fmt::format(
        "num_kv_shared_layers: expected a layer of the kind of layer {} among the first {}", i,
        first));
    return;
  }
}

void read_layer_inputs(const ConfigReader& reader, ModelConfig& config) {
  LayerInputSpec& inputs = config.layer_inputs;
  constexpr int64_t kMaxWidth = int64_t{1} << 24;  // of all layers
  inputs.size =
      reader.integer("hidden_size_per_layer_input", {0, kMaxWidth / config.num_hidden_layers}, 256);
  inputs.vocab_size = reader.integer("vocab_size_per_layer_input", {1, int64_t{1} << 24}, 262144);
  inputs.given_row = reader.integer("pad_token_id", {0, inputs.vocab_size - 1}, 0);
  inputs.activation = config.activation;
}

}  // namespace quire
