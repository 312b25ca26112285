// The configuration keys and the tensor names of models with latent attention.
#pragma once

#include "models/expert_names.h"
#include "models/family.h"

namespace quire {

class ConfigReader;
struct ModelConfig;

// Sets ModelConfig::latent, with `defaults` for missing keys, and head_dim to the rotated dims.
void read_latent(const ConfigReader& reader, const LatentSpec& defaults, ModelConfig& config);

// The values of DeepSeek-V3, which other families share.
inline constexpr LatentSpec kDeepseekLatent{
    .rank = 512, .rope_dim = 64, .nope_dim = 128, .value_dim = 128, .query_rank = 1536};
inline constexpr ExpertRules kDeepseekV3Experts{
    .router = {.num_experts = 256,
               .experts_per_token = 8,
               .score = RouterScore::kSigmoid,
               .min_sum = 1e-20f,
               .scale = 2.5f,
               .group_score = GroupScore::kSumOfTwo},
    .intermediate_size = 2048,
    .normalizes = true,
    .gguf_normalizes = true,
    .layers = ExpertLayers::kAfterDense,
    .first_layer = 3,
    .shared = SharedExperts::kCount,
    .shared_default = 1,
    .has_correction = true,
};

inline constexpr NameMapEntry kLatentEntries[] = {
    {TensorRole::kQueryDown, "layers.{}.self_attn.q_a_proj"},
    {TensorRole::kQueryDownNorm, "layers.{}.self_attn.q_a_layernorm"},
    {TensorRole::kQueryUp, "layers.{}.self_attn.q_b_proj"},
    {TensorRole::kLatentDown, "layers.{}.self_attn.kv_a_proj_with_mqa"},
    {TensorRole::kLatentNorm, "layers.{}.self_attn.kv_a_layernorm"},
    {.role = TensorRole::kLatentKeyUp,
     .pattern = "layers.{}.self_attn.kv_b_proj.{e}.k",
     .transposed = true},
    {TensorRole::kLatentValueUp, "layers.{}.self_attn.kv_b_proj.{e}.v"},
    {.role = TensorRole::kRouterCorrection,
     .pattern = "layers.{}.mlp.gate.e_score_correction_bias",
     .bare = true},
};
// Layers beyond the model's last one predict further tokens and are ignored.
inline constexpr NameMap kLatentNames{.entries = kLatentEntries,
                                      .prefixes = kLlamaPrefixes,
                                      .ignored = kIgnoredTensors,
                                      .base = &kMlpExpertNames,
                                      .ignores_later_layers = true};

// Newer files have one tensor of all heads for keys and one for values; older ones have Hugging
// Face's.
inline constexpr NameMapEntry kGgufLatentEntries[] = {
    {TensorRole::kQueryDown, "blk.{}.attn_q_a"},
    {TensorRole::kQueryDownNorm, "blk.{}.attn_q_a_norm"},
    {TensorRole::kQueryUp, "blk.{}.attn_q_b"},
    {TensorRole::kLatentDown, "blk.{}.attn_kv_a_mqa"},
    {TensorRole::kLatentNorm, "blk.{}.attn_kv_a_norm"},
    {TensorRole::kLatentKeyUp, "blk.{}.attn_k_b.{e}"},
    {TensorRole::kLatentValueUp, "blk.{}.attn_v_b.{e}"},
    {.role = TensorRole::kLatentKeyUp, .pattern = "blk.{}.attn_kv_b.{e}.k", .transposed = true},
    {TensorRole::kLatentValueUp, "blk.{}.attn_kv_b.{e}.v"},
};
inline constexpr NameMap kGgufLatentNames{.entries = kGgufLatentEntries,
                                          .prefixes = kGgufPrefixes,
                                          .ignored = kIgnoredTensors,
                                          .base = &kGgufExpertNames,
                                          .ignores_later_layers = true};

}  // namespace quire
