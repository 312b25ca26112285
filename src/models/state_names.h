// The names of Mamba's tensors in checkpoints whose layers call them "mamba". They are added to the
// names of standard_names.h and expert_names.h.
#pragma once

#include "models/expert_names.h"

namespace quire {

inline constexpr NameMapEntry kMambaEntries[] = {
    {TensorRole::kFinalNorm, "final_layernorm"},
    {TensorRole::kPreMlpNorm, "layers.{}.pre_ff_layernorm"},
    {TensorRole::kGate, "layers.{}.feed_forward.gate_proj"},
    {TensorRole::kUp, "layers.{}.feed_forward.up_proj"},
    {TensorRole::kDown, "layers.{}.feed_forward.down_proj"},
    {TensorRole::kRouter, "layers.{}.feed_forward.router"},
    {TensorRole::kExpertGate, "layers.{}.feed_forward.experts.{e}.gate_proj"},
    {TensorRole::kExpertUp, "layers.{}.feed_forward.experts.{e}.up_proj"},
    {TensorRole::kExpertDown, "layers.{}.feed_forward.experts.{e}.down_proj"},
    {TensorRole::kStateIn, "layers.{}.mamba.in_proj"},
    {TensorRole::kStateConv, "layers.{}.mamba.conv1d"},
    {TensorRole::kStateX, "layers.{}.mamba.x_proj"},
    {TensorRole::kStateStepUp, "layers.{}.mamba.dt_proj"},
    {TensorRole::kStateStepNorm, "layers.{}.mamba.dt_layernorm"},
    {TensorRole::kStateBNorm, "layers.{}.mamba.b_layernorm"},
    {TensorRole::kStateCNorm, "layers.{}.mamba.c_layernorm"},
    {.role = TensorRole::kStateStepBias, .pattern = "layers.{}.mamba.dt_bias", .bare = true},
    {.role = TensorRole::kStateA, .pattern = "layers.{}.mamba.A_log", .bare = true, .is_log = true},
    {.role = TensorRole::kStateD, .pattern = "layers.{}.mamba.D", .bare = true},
    {TensorRole::kStateNorm, "layers.{}.mamba.norm"},
    {TensorRole::kStateOut, "layers.{}.mamba.out_proj"},
};
inline constexpr NameMap kMambaNames{.entries = kMambaEntries,
                                     .prefixes = kLlamaPrefixes,
                                     .ignored = kIgnoredTensors,
                                     .base = &kLlamaNames};

// The names in GGUF files, which store the decay itself.
inline constexpr NameMapEntry kGgufStateEntries[] = {
    {TensorRole::kStateIn, "blk.{}.ssm_in"},
    {TensorRole::kStateConv, "blk.{}.ssm_conv1d"},
    {TensorRole::kStateX, "blk.{}.ssm_x"},
    {TensorRole::kStateStepUp, "blk.{}.ssm_dt"},
    {.role = TensorRole::kStateStepBias, .pattern = "blk.{}.ssm_dt.bias", .bare = true},
    {TensorRole::kStateStepNorm, "blk.{}.ssm_dt_norm"},
    {TensorRole::kStateBNorm, "blk.{}.ssm_b_norm"},
    {TensorRole::kStateCNorm, "blk.{}.ssm_c_norm"},
    {.role = TensorRole::kStateA, .pattern = "blk.{}.ssm_a", .bare = true},
    {.role = TensorRole::kStateD, .pattern = "blk.{}.ssm_d", .bare = true},
    {TensorRole::kStateNorm, "blk.{}.ssm_norm"},
    {TensorRole::kStateOut, "blk.{}.ssm_out"},
};
inline constexpr NameMap kGgufStateNames{.entries = kGgufStateEntries,
                                         .prefixes = kGgufPrefixes,
                                         .ignored = kIgnoredTensors,
                                         .base = &kGgufExpertNames};

}  // namespace quire
