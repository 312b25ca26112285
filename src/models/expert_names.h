// The names of routers and experts in checkpoints, which are added to those of standard_names.h.
#pragma once

#include <array>
#include <cstddef>

#include "models/family.h"
#include "models/standard_names.h"

namespace quire {

// The keys of counts in DeepSeek's configurations and those that follow them.
inline constexpr KeyAlias kDeepseekAliases[] = {{"num_experts", "n_routed_experts"},
                                                {"num_shared_experts", "n_shared_experts"}};

// Mixtral's names, which others use as well: w1 is the gate, w3 up, w2 down.
inline constexpr NameMapEntry kSparseMoeEntries[] = {
    {TensorRole::kRouter, "layers.{}.block_sparse_moe.gate"},
    {TensorRole::kExpertGate, "layers.{}.block_sparse_moe.experts.{e}.w1"},
    {TensorRole::kExpertUp, "layers.{}.block_sparse_moe.experts.{e}.w3"},
    {TensorRole::kExpertDown, "layers.{}.block_sparse_moe.experts.{e}.w2"},
};
inline constexpr NameMap kSparseMoeNames{.entries = kSparseMoeEntries,
                                         .prefixes = kLlamaPrefixes,
                                         .ignored = kIgnoredTensors,
                                         .base = &kLlamaNames};

inline constexpr NameMapEntry kMlpExpertEntries[] = {
    {TensorRole::kRouter, "layers.{}.mlp.gate"},
    {TensorRole::kExpertGate, "layers.{}.mlp.experts.{e}.gate_proj"},
    {TensorRole::kExpertUp, "layers.{}.mlp.experts.{e}.up_proj"},
    {TensorRole::kExpertDown, "layers.{}.mlp.experts.{e}.down_proj"},
    {TensorRole::kSharedGate, "layers.{}.mlp.shared_experts.gate_proj"},
    {TensorRole::kSharedUp, "layers.{}.mlp.shared_experts.up_proj"},
    {TensorRole::kSharedDown, "layers.{}.mlp.shared_experts.down_proj"},
};
inline constexpr NameMap kMlpExpertNames{.entries = kMlpExpertEntries,
                                         .prefixes = kLlamaPrefixes,
                                         .ignored = kIgnoredTensors,
                                         .base = &kLlamaNames};

inline constexpr NameMapEntry kGgufExpertEntries[] = {
    {TensorRole::kRouter, "blk.{}.ffn_gate_inp"},
    {.role = TensorRole::kRouterCorrection, .pattern = "blk.{}.exp_probs_b.bias", .bare = true},
    {TensorRole::kExpertGate, "blk.{}.ffn_gate_exps.{e}"},
    {TensorRole::kExpertUp, "blk.{}.ffn_up_exps.{e}"},
    {TensorRole::kExpertDown, "blk.{}.ffn_down_exps.{e}"},
    {TensorRole::kSharedGate, "blk.{}.ffn_gate_shexp"},
    {TensorRole::kSharedUp, "blk.{}.ffn_up_shexp"},
    {TensorRole::kSharedDown, "blk.{}.ffn_down_shexp"},
    {TensorRole::kSharedRouter, "blk.{}.ffn_gate_inp_shexp"},
};
inline constexpr NameMap kGgufExpertNames{.entries = kGgufExpertEntries,
                                          .prefixes = kGgufPrefixes,
                                          .ignored = kIgnoredTensors,
                                          .base = &kGgufNames};

// For files that name the norm before the experts after the attention that it follows.
inline constexpr NameMapEntry kGgufPostAttentionEntries[] = {
    {TensorRole::kSinks, "blk.{}.attn_sinks"},
    {TensorRole::kPreMlpNorm, "blk.{}.post_attention_norm"},
};
inline constexpr NameMap kGgufPostAttentionNames{.entries = kGgufPostAttentionEntries,
                                                 .prefixes = kGgufPrefixes,
                                                 .ignored = kIgnoredTensors,
                                                 .base = &kGgufExpertNames,
                                                 .ignores_later_layers = true};

}  // namespace quire
