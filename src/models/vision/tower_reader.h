// Readers of towers, one for each group of similar families. Internal to models/.
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

// Each reads a tower and its projector from config.json, for a language model of `hidden_size`. The
// caller checks the reader's status.
void read_llava(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision);
void read_llava_next(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision);
void read_qwen_vl(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision);
void read_mistral3(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision);
void read_idefics3(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision);
void read_internvl(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision);
void read_gemma3(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision);
void read_mllama(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision);
void read_gemma4(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision);

// `tower` is Pixtral's vision_config. Reads everything except the projector and its input.
void read_pixtral(const ConfigReader& tower, VisionSpec& vision);

// The differences between the towers of CLIP and SigLIP, and the defaults of missing keys.
// read_clip() reads the vision_config in `reader`: everything except the projector and the first of
// pooling.layers.
struct ClipTower {
  bool is_siglip = false;
  int64_t width = 768;
  int64_t num_heads = 12;
  int64_t patch_size = 16;
  // The layer whose output is read, from the first one, or, if negative, from the last one.
  int64_t feature_layer = -1;
};
void read_clip(const ConfigReader& reader, const ClipTower& tower, VisionSpec& vision);
// Returns the names of their tensors; "dense.{}" are the layers before and after the encoder.
const NameMap& clip_names();

// Returns vision_config, whose model_type must be one of `types`; if it has none, it is taken to be
// the first. Returns nullopt after a failure.
std::optional<ConfigReader> read_tower_config(const ConfigReader& top,
                                              std::span<const std::string_view> types);
// Returns the token that embeddings replace; the key has two names.
TokenId read_placeholder(const ConfigReader& top, int64_t default_token);
// Sets how many patches a cell has on each side. Fails if the picture's side is not a multiple of a
// cell's.
void set_merge_size(const ConfigReader& top, std::string_view key, int64_t size,
                    VisionSpec& vision);
void read_merge_size(const ConfigReader& top, std::string_view key, int64_t default_size,
                     VisionSpec& vision);
// Fail unless the last layer's output is read, and unless pictures are red, green and blue.
void check_last_layer(const ConfigReader& top, int64_t default_layer = -1);
void check_channels(const ConfigReader& reader, std::string_view key);
// Fails unless the head size, half of which rotates by row and half by column, is a multiple of 4.
void check_axial_heads(const ConfigReader& reader, std::string_view key, int64_t head_dim);

Activation read_tower_activation(const ConfigReader& reader, std::string_view key,
                                 std::string_view default_name);

// Returns attention over the whole picture, as wide as the encoder. Fails if the size of a head is
// odd.
AttentionSpec tower_attention(const ConfigReader& reader, int64_t hidden_size, int64_t num_heads);

// Returns y = act(W x + b), as layer `index` of VisionSpec::encoder.pooling.layers.
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
