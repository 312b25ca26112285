"""Tiny models whose layers carry states for tools/make_model_goldens.py."""

import numpy as np
import transformers as tf


def variants(common, rope):
    """name -> (config, stored dtype, options), as variants() of make_model_goldens."""
    experts = dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=16)
    delta = dict(head_dim=16, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8,
                 linear_value_head_dim=12, linear_conv_kernel_dim=4)
    mixed = ["linear_attention", "linear_attention", "full_attention"]
    ssd = dict(mamba_n_heads=4, mamba_d_head=16, mamba_n_groups=2, mamba_d_state=8, mamba_d_conv=4, mamba_expand=2,
               mamba_chunk_size=16)
    multipliers = dict(embedding_multiplier=3.0, logits_scaling=2.0, residual_multiplier=0.6, attention_multiplier=0.2)
    mamba = dict(vocab_size=160, hidden_size=32, num_hidden_layers=3, state_size=8, bos_token_id=1, eos_token_id=2,
                 pad_token_id=0)
    return {
        "lfm2": (tf.Lfm2Config(**common(num_hidden_layers=4, layer_types=["conv", "full_attention", "conv", "conv"],
                                        block_multiple_of=8, tie_word_embeddings=True), **rope()),
                 "bfloat16", {}),
        "lfm2_bias": (tf.Lfm2Config(**common(layer_types=["conv", "full_attention", "conv"], conv_bias=True,
                                             conv_L_cache=4, block_auto_adjust_ff_dim=False), **rope()),
                      "bfloat16", {}),
        "lfm2_moe": (tf.Lfm2MoeConfig(**common(layer_types=["conv", "full_attention", "conv"], num_dense_layers=1,
                                               **experts), **rope()), "bfloat16", {}),
        "qwen3_next": (tf.Qwen3NextConfig(**common(layer_types=mixed, shared_expert_intermediate_size=20, **delta,
                                                   **experts), **rope(partial_rotary_factor=0.25)),
                       "bfloat16", dict(first_seed=3)),
        "qwen3_next_bias": (tf.Qwen3NextConfig(**common(layer_types=mixed[1:], num_hidden_layers=2, attention_bias=True,
                                                        mlp_only_layers=[0, 1], **delta, **experts),
                                               **rope(partial_rotary_factor=0.25)), "bfloat16", {}),
        "qwen3_5": (tf.Qwen3_5TextConfig(**common(layer_types=mixed, **delta), **rope(partial_rotary_factor=0.25)),
                    "bfloat16", dict(gguf="qwen35", first_seed=3)),
        "qwen3_5_moe": (tf.Qwen3_5MoeTextConfig(**common(layer_types=mixed, shared_expert_intermediate_size=20, **delta,
                                                         **experts), **rope(partial_rotary_factor=0.25)),
                        "bfloat16", dict(gguf="qwen35moe", first_seed=2)),
        "granitemoehybrid": (tf.GraniteMoeHybridConfig(**common(
            layer_types=mixed[1:], num_hidden_layers=2, intermediate_size=24, num_local_experts=4,
            num_experts_per_tok=2, shared_intermediate_size=20, **ssd,
            **dict(multipliers), position_embedding_type="nope")), "bfloat16", {}),
        "granitemoehybrid_dense": (tf.GraniteMoeHybridConfig(**common(
            layer_types=mixed, num_local_experts=0, shared_intermediate_size=40, **ssd,
            **multipliers, position_embedding_type="rope"), **rope()), "bfloat16", {}),
        "bamba": (tf.BambaConfig(**common(attn_layer_indices=[2], **ssd), **rope(partial_rotary_factor=0.5)),
                  "bfloat16", {}),
        "mamba2": (tf.Mamba2Config(**dict(mamba, num_heads=4, head_dim=16, n_groups=2, chunk_size=16,
                                          time_step_limit=(0.1, 1.5))), "bfloat16", {}),
        "falcon_h1": (tf.FalconH1Config(**common(**dict(ssd, mamba_d_ssm=48, mamba_d_head=12),
                                                 embedding_multiplier=3.0, lm_head_multiplier=0.7,
                                                 mlp_multipliers=[0.8, 1.2], ssm_multipliers=[0.9, 1.1, 0.8, 1.2, 0.7],
                                                 ssm_in_multiplier=1.3, ssm_out_multiplier=0.8, key_multiplier=0.6,
                                                 attention_in_multiplier=1.2, attention_out_multiplier=0.9), **rope()),
                      "bfloat16", {}),
        "falcon_h1_norm": (tf.FalconH1Config(**common(**dict(ssd, mamba_d_ssm=64), num_hidden_layers=2,
                                                      mamba_rms_norm=True, mamba_norm_before_gate=False,
                                                      mamba_proj_bias=True), **rope()), "bfloat16", {}),
        "nemotron_h": (tf.NemotronHConfig(**without(common(
            hybrid_override_pattern="M-M*E", mamba_num_heads=4, mamba_head_dim=12, n_groups=2, ssm_state_size=8,
            conv_kernel=4, chunk_size=16, head_dim=12, n_routed_experts=8, num_experts_per_tok=2,
            moe_intermediate_size=24, moe_shared_expert_intermediate_size=20, routed_scaling_factor=1.7,
            time_step_min=0.3), "num_hidden_layers")), "bfloat16", {}),
        "kimi_linear": (tf.KimiLinearConfig(**common(
            num_hidden_layers=4, layer_types=["linear_attention", "linear_attention", "full_attention",
                                              "linear_attention"],
            mlp_layer_types=["dense", "sparse", "sparse", "sparse"], num_local_experts=6, num_experts_per_tok=2,
            n_shared_experts=1, moe_intermediate_size=16, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=4,
            v_head_dim=6, num_key_value_heads=4, n_group=1, topk_group=1, linear_head_dim=8, linear_num_heads=4,
            linear_conv_kernel_dim=4, rms_norm_eps=1e-5)),
            "bfloat16", {}),
        "mamba": (tf.MambaConfig(**mamba, time_step_rank=3), "bfloat16", {}),
        "falcon_mamba": (tf.FalconMambaConfig(**mamba, use_conv_bias=False, use_bias=True), "bfloat16", {}),
        "jamba": (tf.JambaConfig(**common(num_hidden_layers=4, attn_layer_period=4, attn_layer_offset=2,
                                          intermediate_size=24, num_experts=4, num_experts_per_tok=2, expert_layer_period=2,
                                          expert_layer_offset=1, mamba_d_state=8, mamba_dt_rank=3,
                                          use_mamba_kernels=False)), "bfloat16", {}),
    }


def without(fields, name):
    return {key: value for key, value in fields.items() if key != name}


def tiled(value, config):
    """Value heads, which lie beside the others of their key head, in the order in which they take key heads in turn."""
    keys = config.linear_num_key_heads
    each = config.linear_num_value_heads // keys
    return value.reshape(keys, each, -1, *value.shape[1:]).swapaxes(0, 1).reshape(value.shape)


def tiled_values(value, config):
    """The same of the last part of rows of queries, keys and values."""
    first = 2 * config.linear_num_key_heads * config.linear_key_head_dim
    return np.concatenate([value[:first], tiled(value[first:], config)])


GGUF_NAMES = {
    "in_proj_qkv.weight": ("attn_qkv.weight", tiled_values),
    "in_proj_z.weight": ("attn_gate.weight", tiled),
    "in_proj_b.weight": ("ssm_beta.weight", tiled),
    "in_proj_a.weight": ("ssm_alpha.weight", tiled),
    "conv1d.weight": ("ssm_conv1d.weight", lambda value, config: tiled_values(value[:, 0], config)),
    "dt_bias": ("ssm_dt.bias", tiled),
    "A_log": ("ssm_a", lambda value, config: tiled(-np.exp(value), config)),
    "norm.weight": ("ssm_norm.weight", lambda value, config: value),
    "out_proj.weight": ("ssm_out.weight", lambda value, config: tiled(value.T, config).T),
}


def gguf_tensors(name, value, config):
    """The GGUF tensor of one of transformers' tensors of a gated DeltaNet, or None for any other."""
    if ".linear_attn." not in name:
        return None
    layer, rest = name.removeprefix("model.layers.").split(".linear_attn.")
    new_name, change = GGUF_NAMES[rest]
    return {f"blk.{layer}.{new_name}": change(value, config)}


def gguf_metadata(config, arch):
    if not arch.startswith("qwen35"):
        return {}
    return {
        f"{arch}.full_attention_interval": 1 + config.layer_types.index("full_attention"),
        f"{arch}.ssm.conv_kernel": config.linear_conv_kernel_dim,
        f"{arch}.ssm.state_size": config.linear_key_head_dim,
        f"{arch}.ssm.group_count": config.linear_num_key_heads,
        f"{arch}.ssm.time_step_rank": config.linear_num_value_heads,
        f"{arch}.ssm.inner_size": config.linear_num_value_heads * config.linear_value_head_dim,
    }
