// The configuration keys of layers that read the keys and values of other layers, and of inputs
// that each layer has of its own (Gemma 3n and 4).
#pragma once

#include <cstdint>

namespace quire {

class ConfigReader;
struct ModelConfig;

// The last num_kv_shared_layers layers (default `default_count`) read the keys and values of the
// last layer before them that is of their kind, sliding or full.
void read_shared_kv(const ConfigReader& reader, ModelConfig& config, int64_t default_count);

// Reads hidden_size_per_layer_input and vocab_size_per_layer_input.
void read_layer_inputs(const ConfigReader& reader, ModelConfig& config);

}  // namespace quire
