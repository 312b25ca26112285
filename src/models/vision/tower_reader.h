// These are readers of towers, one for each kin. They are not meant for other folders.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
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
void read_llava_next(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision);
void read_qwen_vl(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision);
void read_mistral3(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision);
void read_idefics3(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision);
void read_internvl(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision);
void read_gemma3(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision);
void read_mllama(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision);
void read_gemma4(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision);

// `tower` is the vision_config of Pixtral. All is read but the projector and what it reads.
void read_pixtral(const ConfigReader& tower, VisionSpec& vision);

// The towers of CLIP and SigLIP differ in this, and where the file says nothing these are meant.
// read_clip() reads the vision_config that `reader` is on: all but the projector and the first of
// pooling.layers.
struct ClipTower {
  bool is_siglip = false;
  int64_t width = 768;
  int64_t num_heads = 12;
  int64_t patch_size = 16;
  int64_t feature_layer = -1;  // whose output is read, from the first or, below 0, from the last
};
void read_clip(const ConfigReader& reader, const ClipTower& tower, VisionSpec& vision);
// Returns the names of their tensors, with "dense.{}" for the layers around them.
const NameMap& clip_names();

// Returns vision_config, whose model_type is one of `types`: the first where it says none. After a
// failure it is nullopt.
std::optional<ConfigReader> read_tower_config(const ConfigReader& top,
                                              std::span<const std::string_view> types);
// The token whose place embeddings take; the key has two names.
TokenId read_placeholder(const ConfigReader& top, int64_t default_token);
// How many patches a cell has each way, in squares of one size. Fails where cells do not fill them.
void set_merge_size(const ConfigReader& top, std::string_view key, int64_t size,
                    VisionSpec& vision);
void read_merge_size(const ConfigReader& top, std::string_view key, int64_t default_size,
                     VisionSpec& vision);
// Fails unless what the last layer makes is read, and pictures are red, green and blue.
void check_last_layer(const ConfigReader& top, int64_t default_layer = -1);
void check_channels(const ConfigReader& reader, std::string_view key);
// Heads whose pairs turn by row and column have a size that is a multiple of 4.
void check_axial_heads(const ConfigReader& reader, std::string_view key, int64_t head_dim);

Activation read_tower_activation(const ConfigReader& reader, std::string_view key,
                                 std::string_view default_name);

// Returns attention over the whole picture, as wide as the encoder. It fails where heads have no
// even size.
AttentionSpec tower_attention(const ConfigReader& reader, int64_t hidden_size, int64_t num_heads);

// Returns y = act(W x + b), the i-th of VisionSpec::encoder.pooling.layers.
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
