#include "models/vision/tower_reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace quire {

std::optional<ConfigReader> read_tower_config(const ConfigReader& top,
                                              std::span<const std::string_view> types) {
  std::optional<ConfigReader> tower = top.child("vision_config");
  if (!tower) {
    top.fail("vision_config: expected an object");
    return std::nullopt;
  }
  const std::string type = tower->string("model_type", types.front());
  if (std::find(types.begin(), types.end(), type) != types.end()) return tower;
  top.fail(fmt::format("vision_config: expected {}, got {}", fmt::join(types, " or "), type));
  return std::nullopt;
}

TokenId read_placeholder(const ConfigReader& top, int64_t default_token) {
  const std::string_view key =
      top.has("image_token_index") ? "image_token_index" : "image_token_id";
  return static_cast<TokenId>(top.integer(key, {0, 1 << 24}, default_token));
}

void set_merge_size(const ConfigReader& top, std::string_view key, int64_t size,
                    VisionSpec& vision) {
  const int32_t patches = vision.image_size / std::max(1, vision.patch_size);
  if (size < 1 || patches < size || patches % size != 0) {
    return top.fail(fmt::format("{}: expected what divides {}, the patches of a side, got {}", key,
                                patches, size));
  }
  vision.merge_size = static_cast<int32_t>(size);
}

void read_merge_size(const ConfigReader& top, std::string_view key, int64_t default_size,
                     VisionSpec& vision) {
  set_merge_size(top, key, top.integer(key, {1, 64}, default_size), vision);
}

void check_last_layer(const ConfigReader& top, int64_t default_layer) {
  const int64_t layer = top.integer("vision_feature_layer", {-256, 256}, default_layer);
  if (layer != -1) top.fail(fmt::format("vision_feature_layer: expected -1, got {}", layer));
}

void check_channels(const ConfigReader& reader, std::string_view key) {
  const int64_t channels = reader.integer(key, {1, 64}, 3);
  if (channels != 3) reader.fail(fmt::format("{}: expected 3, got {}", key, channels));
}

void check_axial_heads(const ConfigReader& reader, std::string_view key, int64_t head_dim) {
  if (head_dim % 4 != 0)
    reader.fail(fmt::format("{}: expected heads of a multiple of 4, got {}", key, head_dim));
}

Activation read_tower_activation(const ConfigReader& reader, std::string_view key,
                                 std::string_view default_name) {
  const std::string name = reader.string(key, default_name);
  if (name == "quick_gelu") return Activation::kQuickGelu;
  if (name == "silu") return Activation::kSilu;
  if (name == "gelu_pytorch_tanh" || name == "gelu_new") return Activation::kGeluTanh;
  if (name != "gelu") {
    reader.fail(
        fmt::format("{}: expected quick_gelu, gelu, gelu_pytorch_tanh or silu, got {}", key, name));
  }
  return Activation::kGeluErf;
}

AttentionSpec tower_attention(const ConfigReader& reader, int64_t hidden_size, int64_t num_heads) {
  if (hidden_size % num_heads != 0 || hidden_size / num_heads % 2 != 0 ||
      hidden_size / num_heads > kMaxAttentionHeadDim) {
    reader.fail(fmt::format("hidden_size: expected {} heads of an even size of at most {}, got {}",
                            num_heads, kMaxAttentionHeadDim, hidden_size));
    return {};
  }
  const auto head_dim = static_cast<int32_t>(hidden_size / num_heads);
  return {.num_heads = static_cast<int32_t>(num_heads),
          .num_kv_heads = static_cast<int32_t>(num_heads),
          .head_dim = head_dim,
          .causal = false,
          .scale = 1.0f / std::sqrt(static_cast<float>(head_dim)),
          .rope_style = RopeStyle::kNone,
          .qkv_bias = true,
          .o_bias = true};
}

}  // namespace quire
