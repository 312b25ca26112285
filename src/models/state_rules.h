// Reads from configurations which layers have a mixer with a state, and the sizes of the state.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "models/config_reader.h"
#include "nn/spec/state_spec.h"

namespace quire {

struct ModelConfig;

// The parts of a layer. Attention and a state in one layer read the same input, and their outputs
// are added.
struct LayerParts {
  bool attention = true;
  bool state = false;
  bool ffn = true;
};

inline constexpr LayerParts kAttentionParts{};
inline constexpr LayerParts kStateParts{.attention = false, .state = true};

// A family's name for a kind of layer.
struct LayerWord {
  std::string_view word;
  LayerParts parts;
};

// Sets the parts of every layer from a list of words under `key`; returns false if the key does not
// exist. Fails for a list of the wrong length and for words that are not in `words`.
bool read_layer_words(const ConfigReader& reader, std::string_view key,
                      std::span<const LayerWord> words, ModelConfig& config);
// Reads `words` from layer_types or layers_block_type.
bool read_layer_types(const ConfigReader& reader, std::span<const LayerWord> words,
                      ModelConfig& config);

// Layers whose numbers are listed under `key` have the parts `listed`, all others `others`.
void read_layer_numbers(const ConfigReader& reader, std::string_view key, LayerParts others,
                        LayerParts listed, ModelConfig& config);

// Reads a positive size; "auto" stands for the default.
int64_t read_integer_or_auto(const ConfigReader& reader, std::string_view key,
                             int64_t default_value);

// Reads the size of a convolution, which is at least `min`.
int32_t read_conv_kernel(const ConfigReader& reader, std::string_view key, int64_t default_value,
                         int64_t min = 2);

// The keys of Mamba-2's sizes and flags, which differ between families, and their defaults.
struct SsdKeys {
  std::string_view num_heads, head_dim, num_groups, num_states, conv_kernel, conv_bias, proj_bias;
};
inline constexpr SsdKeys kMambaSsdKeys{"mamba_n_heads",  "mamba_d_head", "mamba_n_groups",
                                       "mamba_d_state",  "mamba_d_conv", "mamba_conv_bias",
                                       "mamba_proj_bias"};
struct SsdDefaults {
  int64_t num_heads = 128, head_dim = 64, num_groups = 1, num_states = 128, conv_kernel = 4;
};
// Reads the mixer of Mamba-2, whose output is gated and then normed group by group.
StateSpec read_ssd(const ConfigReader& reader, const SsdKeys& keys, const SsdDefaults& defaults,
                   double norm_eps);

}  // namespace quire
