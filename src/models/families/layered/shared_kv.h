// What configurations say of layers that read the keys and values of others, and of inputs that every
// layer has of its own (Gemma 3n and 4).
#pragma once

#include <cstdint>

namespace quire {

class ConfigReader;
struct ModelConfig;

// The last num_kv_shared_layers (default `default_count`) read those of the last layer before them of
// their kind, sliding or full.
void read_shared_kv(const ConfigReader& reader, ModelConfig& config, int64_t default_count);

// hidden_size_per_layer_input and vocab_size_per_layer_input.
void read_layer_inputs(const ConfigReader& reader, ModelConfig& config);

}  // namespace quire
