// The table of the ops in cuda/ops.h.
#pragma once

#include "kernels/cuda/ops.h"

namespace quire::cuda {

inline constexpr LoraOps kLoraOps{
    .apply_lora = nullptr, .shrink_lora = shrink_lora, .expand_lora = expand_lora};

inline constexpr RowOps kRowOps{
    .query_scales = query_scales,
    .copy_rows = copy_rows,
    .place_floats = place_floats,
};

inline constexpr StreamOps kStreamOps{
    .predict_streams = predict_streams,
    .correct_streams = correct_streams,
    .match_magnitude = match_magnitude,
    .add_scaled = add_scaled,
    .cut_below = cut_below,
};

inline constexpr OpTable kOpTable{
    .activation = activation,
    .soft_cap = soft_cap,
    .embedding = embedding,
    .rms_norm = rms_norm,
    .layer_norm = layer_norm,
    .rope_table = rope_table,
    .rows = &kRowOps,
    .qkv_to_cache = qkv_to_cache,
    .kv_block_copy = kv_block_copy,
    .paged_attention = paged_attention,
    .paged_attention_workspace_bytes = paged_attention_workspace_bytes,
    .paged_attention_cut_bytes = paged_attention_cut_bytes,
    .linear = linear,
    .linear_workspace_bytes = linear_workspace_bytes,
    .linear_gates = linear_gates,
    .pack_weight_rows = pack_weight_rows,
    .lora = &kLoraOps,
    .sigmoid_scale = sigmoid_scale,
    .route_tokens = route_tokens,
    .run_experts = run_experts,
    .experts_workspace_bytes = experts_workspace_bytes,
    .latent_to_cache = latent_to_cache,
    .head_linear = head_linear,
    .head_linear_workspace_bytes = head_linear_workspace_bytes,
    .sparse = nullptr,
    .causal_conv = causal_conv,
    .selective_scan = selective_scan,
    .ssd_scan = ssd_scan,
    .delta_rule = delta_rule,
    .step_gates = step_gates,
    .sigmoid = sigmoid,
    .gated_norm = gated_norm,
    .streams = &kStreamOps,
    .supports_fp8_products = supports_fp8_products,
    .sample_rows = sample_rows,
    .count_tokens = count_tokens,
    .build_step_inputs = build_step_inputs,
    .keep_tokens = keep_tokens,
    .read_bytes = read_bytes,
};

}  // namespace quire::cuda
