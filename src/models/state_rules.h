// What configurations say of layers whose mixer carries a state: which layers have one, and its
// sizes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "models/config_reader.h"
#include "nn/spec/state_spec.h"

namespace quire {

struct ModelConfig;

// What a layer has. With attention and a state both read the same and their outputs are added.
struct LayerParts {
  bool attention = true;
  bool state = false;
  bool ffn = true;
};

inline constexpr LayerParts kAttentionParts{};
inline constexpr LayerParts kStateParts{.attention = false, .state = true};

// What a family calls its kinds of layers.
struct LayerWord {
  std::string_view word;
  LayerParts parts;
};

// Sets the parts of every layer by a list of words under `key`; false when there is none. Fails for
// a list of the wrong length and for words that are none of `words`.
bool read_layer_words(const ConfigReader& reader, std::string_view key,
                      std::span<const LayerWord> words, ModelConfig& config);
// `words` as layer_types or layers_block_type have them.
bool read_layer_types(const ConfigReader& reader, std::span<const LayerWord> words,
                      ModelConfig& config);

// Layers listed under `key` have `listed`, the others `others`.
void read_layer_numbers(const ConfigReader& reader, std::string_view key, LayerParts others,
                        LayerParts listed, ModelConfig& config);

// Reads a positive size; "auto" stands for the default.
int64_t read_integer_or_auto(const ConfigReader& reader, std::string_view key,
                             int64_t default_value);

// Reads the size of a convolution, which is at least `min`.
int32_t read_conv_kernel(const ConfigReader& reader, std::string_view key, int64_t default_value,
                         int64_t min = 2);

// These are the keys of Mamba-2's sizes and flags, which families spell in their own ways, and
// their defaults.
struct SsdKeys {
  std::string_view num_heads, head_dim, num_groups, num_states, conv_kernel, conv_bias, proj_bias;
};
inline constexpr SsdKeys kMambaSsdKeys{"mamba_n_heads",  "mamba_d_head", "mamba_n_groups",
                                       "mamba_d_state",  "mamba_d_conv", "mamba_conv_bias",
                                       "mamba_proj_bias"};
struct SsdDefaults {
  int64_t num_heads = 128, head_dim = 64, num_groups = 1, num_states = 128, conv_kernel = 4;
};
// Reads Mamba-2's mixer, whose output is gated and then normed group by group.
StateSpec read_ssd(const ConfigReader& reader, const SsdKeys& keys, const SsdDefaults& defaults,
                   double norm_eps);

}  // namespace quire
