// Readers of towers, one for each kin: not a door for other folders.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "models/config_reader.h"
#include "models/vision/vision_spec.h"

namespace quire {

inline constexpr IntRange kTowerWidth{1, 1 << 16};
inline constexpr IntRange kTowerSide{1, 4096};
inline constexpr NamePrefix kTowerPrefix[] = {{"", ""}};

// What config.json says of a tower and its projector, for a language model of `hidden_size`. Whoever
// calls asks the reader's status.
void read_llava(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision);
void read_qwen_vl(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision);
void read_mistral3(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision);

// `tower`: the vision_config of Pixtral. All but the projector and what it reads.
void read_pixtral(const ConfigReader& tower, VisionSpec& vision);

Activation read_tower_activation(const ConfigReader& reader, std::string_view key,
                                 std::string_view default_name);

// Attention over the whole picture, as wide as the encoder. Fails where heads have no even size.
AttentionSpec tower_attention(const ConfigReader& reader, int64_t hidden_size, int64_t num_heads);

// y = act(W x + b), the i-th of VisionSpec::encoder.pooling.layers.
inline PoolingLayerSpec tower_dense(int32_t index, int64_t num_inputs, int64_t num_outputs,
                                    bool bias, std::optional<Activation> activation = {}) {
  return {.role = TensorRole::kSentenceDense,
          .index = index,
          .num_inputs = num_inputs,
          .num_outputs = num_outputs,
          .bias = bias,
          .activation = activation};
}

}  // namespace quire
