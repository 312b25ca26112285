#include "models/vision/tower_reader.h"

#include <fmt/format.h>

#include <cmath>

namespace quire {

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
