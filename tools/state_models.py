"""Tiny models whose layers carry states for tools/make_model_goldens.py."""

import numpy as np
import transformers as tf


# Smaller scores of attention and outputs of the shared block. Otherwise the noise of a token becomes the next one's signal.
ZAMBA_QUIET = {"in_proj.weight": 0.5, ".1.weight": 0.2, "q_proj.weight": 0.3, "k_proj.weight": 0.5, ".linear.weight": 0.25}


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
    zamba = dict(mamba_d_state=8, mamba_d_conv=4, mamba_expand=2, mamba_ngroups=2, n_mamba_heads=4, chunk_size=16,
                 intermediate_size=24, adapter_rank=4)
    nemotron = dict(mamba_num_heads=4, mamba_head_dim=12, n_groups=2, ssm_state_size=8, conv_kernel=4, chunk_size=16,
                    head_dim=12)
    return {
        "lfm2": (tf.Lfm2Config(**common(num_hidden_layers=4, layer_types=["conv", "full_attention", "conv", "conv"],
                                        block_multiple_of=8, tie_word_embeddings=True), **rope()),
                 "bfloat16", dict(gguf="lfm2")),
        "lfm2_bias": (tf.Lfm2Config(**common(layer_types=["conv", "full_attention", "conv"], conv_bias=True,
                                             conv_L_cache=4, block_auto_adjust_ff_dim=False), **rope()),
                      "bfloat16", {}),
        "lfm2_moe": (tf.Lfm2MoeConfig(**common(layer_types=["conv", "full_attention", "conv"], num_dense_layers=1,
                                               **experts), **rope()), "bfloat16", dict(gguf="lfm2moe")),
        "qwen3_next": (tf.Qwen3NextConfig(**common(layer_types=mixed, shared_expert_intermediate_size=20, **delta,
                                                   **experts), **rope(partial_rotary_factor=0.25)),
                       "bfloat16", dict(gguf="qwen3next", first_seed=3)),
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
            **dict(multipliers), position_embedding_type="nope")), "bfloat16", dict(gguf="granitehybrid")),
        "granitemoehybrid_dense": (tf.GraniteMoeHybridConfig(**common(
            layer_types=mixed, num_local_experts=0, shared_intermediate_size=40, **ssd,
            **multipliers, position_embedding_type="rope"), **rope()), "bfloat16", dict(gguf="granitehybrid")),
        "bamba": (tf.BambaConfig(**common(attn_layer_indices=[2], **ssd), **rope(partial_rotary_factor=0.5)),
                  "bfloat16", {}),
        "mamba2": (tf.Mamba2Config(**dict(mamba, num_heads=4, head_dim=16, n_groups=2, chunk_size=16,
                                          time_step_limit=(0.1, 1.5))), "bfloat16", {}),
        # GGUF files do not state bounds of the step, so there are none.
        "mamba2_unbounded": (tf.Mamba2Config(**dict(mamba, num_heads=4, head_dim=16, n_groups=2, chunk_size=16)),
                             "bfloat16", dict(gguf="mamba2")),
        "falcon_h1": (tf.FalconH1Config(**common(**dict(ssd, mamba_d_ssm=48, mamba_d_head=12),
                                                 embedding_multiplier=3.0, lm_head_multiplier=0.7,
                                                 mlp_multipliers=[0.8, 1.2], ssm_multipliers=[0.9, 1.1, 0.8, 1.2, 0.7],
                                                 ssm_in_multiplier=1.3, ssm_out_multiplier=0.8, key_multiplier=0.6,
                                                 attention_in_multiplier=1.2, attention_out_multiplier=0.9), **rope()),
                      "bfloat16", dict(gguf="falcon-h1")),
        "falcon_h1_norm": (tf.FalconH1Config(**common(**dict(ssd, mamba_d_ssm=64), num_hidden_layers=2,
                                                      mamba_rms_norm=True, mamba_norm_before_gate=False,
                                                      mamba_proj_bias=True), **rope()), "bfloat16", {}),
        "nemotron_h": (tf.NemotronHConfig(**without(common(
            hybrid_override_pattern="M-M*E", mamba_num_heads=4, mamba_head_dim=12, n_groups=2, ssm_state_size=8,
            conv_kernel=4, chunk_size=16, head_dim=12, n_routed_experts=8, num_experts_per_tok=2,
            moe_intermediate_size=24, moe_shared_expert_intermediate_size=20, routed_scaling_factor=1.7,
            time_step_min=0.3), "num_hidden_layers")), "bfloat16", {}),
        # GGUF files do not state the smallest step.
        "nemotron_h_dense": (tf.NemotronHConfig(**without(common(**nemotron, hybrid_override_pattern="M-*M"),
                                                          "num_hidden_layers")), "bfloat16", dict(gguf="nemotron_h")),
        "nemotron_h_moe": (tf.NemotronHConfig(**without(common(
            **nemotron, hybrid_override_pattern="ME*", n_routed_experts=8, num_experts_per_tok=2, moe_intermediate_size=24,
            moe_shared_expert_intermediate_size=20, routed_scaling_factor=1.7), "num_hidden_layers")),
            "bfloat16", dict(gguf="nemotron_h_moe")),
        "kimi_linear": (tf.KimiLinearConfig(**common(
            num_hidden_layers=4, layer_types=["linear_attention", "linear_attention", "full_attention",
                                              "linear_attention"],
            mlp_layer_types=["dense", "sparse", "sparse", "sparse"], num_local_experts=6, num_experts_per_tok=2,
            n_shared_experts=1, moe_intermediate_size=16, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=4,
            v_head_dim=6, num_key_value_heads=4, n_group=1, topk_group=1, linear_head_dim=8, linear_num_heads=4,
            linear_conv_kernel_dim=4, rms_norm_eps=1e-5)),
            "bfloat16", dict(gguf="kimi-linear")),
        "zamba2": (tf.Zamba2Config(**common(
            num_hidden_layers=4, layers_block_type=["hybrid", "linear_attention", "hybrid", "hybrid"],
            num_key_value_heads=4, num_mem_blocks=2, use_shared_attention_adapter=True, use_mem_rope=True,
            add_bias_linear=True, hidden_act="gelu", tie_word_embeddings=True, time_step_min=0.3, **zamba), **rope()),
            "bfloat16", dict(quiet=ZAMBA_QUIET)),
        # If embeddings are not tied, blocks are not tied either.
        "zamba2_untied": (tf.Zamba2Config(**common(
            num_hidden_layers=3, layers_block_type=["hybrid", "linear_attention", "hybrid"],
            use_conv_bias=False, **dict(zamba, mamba_ngroups=1, adapter_rank=3))), "bfloat16", dict(quiet=ZAMBA_QUIET)),
        "zamba2_one_block": (tf.Zamba2Config(**common(
            num_hidden_layers=3, layers_block_type=["linear_attention", "hybrid", "hybrid"],
            tie_word_embeddings=True, **dict(zamba, mamba_ngroups=1, mamba_expand=3, n_mamba_heads=6))), "bfloat16", dict(quiet=ZAMBA_QUIET)),
        "mamba": (tf.MambaConfig(**mamba, time_step_rank=3), "bfloat16", dict(gguf="mamba")),
        "falcon_mamba": (tf.FalconMambaConfig(**mamba, use_conv_bias=False, use_bias=True), "bfloat16", {}),
        # GGUF files have one epsilon for all norms.
        "falcon_mamba_one_eps": (tf.FalconMambaConfig(**mamba, mixer_rms_eps=1e-5), "bfloat16", dict(gguf="mamba")),
        "jamba": (tf.JambaConfig(**common(num_hidden_layers=4, attn_layer_period=4, attn_layer_offset=2,
                                          intermediate_size=24, num_experts=4, num_experts_per_tok=2, expert_layer_period=2,
                                          expert_layer_offset=1, mamba_d_state=8, mamba_dt_rank=3,
                                          use_mamba_kernels=False)), "bfloat16", dict(gguf="jamba")),
    }


def without(fields, name):
    return {key: value for key, value in fields.items() if key != name}


def tiled(value, config):
    """Reorders value heads from being grouped by key head to the order in which key heads alternate."""
    keys = config.linear_num_key_heads
    each = config.linear_num_value_heads // keys
    return value.reshape(keys, each, -1, *value.shape[1:]).swapaxes(0, 1).reshape(value.shape)


def tiled_values(value, config):
    """Does the same for the last part of the rows of queries, keys and values."""
    first = 2 * config.linear_num_key_heads * config.linear_key_head_dim
    return np.concatenate([value[:first], tiled(value[first:], config)])


def plain(value, config):
    return value


def grouped(value, config):
    """Reorders queries, keys and values that are grouped by key head to all queries, then all keys, then all values."""
    keys, dim = config.linear_num_key_heads, config.linear_key_head_dim
    rows = value.reshape(keys, -1, value.shape[-1])
    inner = config.linear_num_value_heads // keys * config.linear_value_head_dim
    cuts = np.split(rows, [dim, 2 * dim, 2 * dim + inner], axis=1)
    return [part.reshape(-1, value.shape[-1]) for part in cuts]


# Names of Qwen3-Next; "in_proj_qkvz" is split in two.
GGUF_NEXT_NAMES = {
    "in_proj_ba.weight": ("ssm_ba.weight", plain),
    "conv1d.weight": ("ssm_conv1d.weight", lambda value, config: value[:, 0]),
    "dt_bias": ("ssm_dt.bias", plain),
    "A_log": ("ssm_a", lambda value, config: -np.exp(value)),
    "norm.weight": ("ssm_norm.weight", plain),
    "out_proj.weight": ("ssm_out.weight", plain),
}

# Names of Mamba-like models and short convolutions.
GGUF_MIXER_NAMES = {
    "conv1d.weight": ("ssm_conv1d.weight", lambda value, config: value[:, 0]),
    "conv1d.bias": ("ssm_conv1d.bias", plain),
    "dt_proj.weight": ("ssm_dt.weight", plain),
    "dt_proj.bias": ("ssm_dt.bias", plain),
    "dt_bias": ("ssm_dt.bias", plain),
    "A_log": ("ssm_a", lambda value, config: -np.exp(value if value.ndim == 2 else value[:, None])),
    "D": ("ssm_d", lambda value, config: value if is_scan(config) else value[:, None]),
    "norm.weight": ("ssm_norm.weight", lambda value, config: value.reshape(num_groups(config), -1)),
    "in_proj.weight": ("ssm_in.weight", plain), "in_proj.bias": ("ssm_in.bias", plain),
    "out_proj.weight": ("ssm_out.weight", plain), "out_proj.bias": ("ssm_out.bias", plain),
    "x_proj.weight": ("ssm_x.weight", plain),
    "dt_layernorm.weight": ("ssm_dt_norm.weight", plain),
    "b_layernorm.weight": ("ssm_b_norm.weight", plain),
    "c_layernorm.weight": ("ssm_c_norm.weight", plain),
}
GGUF_LAYER_NAMES = {
    "pre_ff_layernorm.weight": "ffn_norm.weight",
    "operator_norm.weight": "attn_norm.weight", "ffn_norm.weight": "ffn_norm.weight",
    "feed_forward.w1.weight": "ffn_gate.weight",
    "feed_forward.w3.weight": "ffn_up.weight",
    "feed_forward.w2.weight": "ffn_down.weight",
    "feed_forward.gate.weight": "ffn_gate_inp.weight",
    "feed_forward.router.weight": "ffn_gate_inp.weight",
    "feed_forward.expert_bias": "exp_probs_b.bias",
    "conv.in_proj.weight": "shortconv.in_proj.weight",
    "conv.out_proj.weight": "shortconv.out_proj.weight",
    "conv.conv.weight": "shortconv.conv.weight",
    "mixer.q_proj.weight": "attn_q.weight",
    "mixer.k_proj.weight": "attn_k.weight",
    "mixer.v_proj.weight": "attn_v.weight",
    "mixer.o_proj.weight": "attn_output.weight",
    "mixer.up_proj.weight": "ffn_up.weight",
    "mixer.down_proj.weight": "ffn_down.weight",
    "mixer.experts.up_proj": "ffn_up_exps.weight",
    "mixer.experts.down_proj": "ffn_down_exps.weight",
    "mixer.gate.weight": "ffn_gate_inp.weight",
    "mixer.gate.e_score_correction_bias": "exp_probs_b.bias",
    "mixer.shared_experts.up_proj.weight": "ffn_up_shexp.weight",
    "mixer.shared_experts.down_proj.weight": "ffn_down_shexp.weight",
    "norm.weight": "attn_norm.weight",
    "shared_mlp.output_linear.weight": "ffn_down",
    "shared_mlp.input_linear.weight": "ffn_gate",
}
GGUF_GLOBAL_NAMES = {
    "backbone.embeddings.weight": "token_embd.weight", "model.embeddings.weight": "token_embd.weight",
    "backbone.norm_f.weight": "output_norm.weight", "model.norm_f.weight": "output_norm.weight",
    "model.final_layernorm.weight": "output_norm.weight", "model.embedding_norm.weight": "token_embd_norm.weight",
}
MIXERS = ("mamba", "falcon_mamba", "mamba2", "jamba", "granitemoehybrid", "falcon_h1", "nemotron_h", "lfm2", "lfm2_moe")


def is_scan(config):
    return config.model_type in ("mamba", "falcon_mamba", "jamba")


def num_groups(config):
    return getattr(config, "mamba_n_groups", None) or getattr(config, "n_groups", 1)


def multiplied(name, value, config):
    """Multiplies the weights by Falcon-H1's multipliers."""
    if config.model_type != "falcon_h1":
        return value
    scales = {"q_proj": config.attention_in_multiplier, "v_proj": config.attention_in_multiplier,
              "k_proj": config.attention_in_multiplier * config.key_multiplier, "o_proj": config.attention_out_multiplier,
              "mamba.out_proj": config.ssm_out_multiplier, "gate_proj": config.mlp_multipliers[0],
              "down_proj": config.mlp_multipliers[1], "lm_head": config.lm_head_multiplier,
              "embed_tokens": config.embedding_multiplier}
    for part, scale in scales.items():
        if part in name:
            value = value * np.float32(scale)
    if "mamba.in_proj" in name:
        inner, states = config.mamba_d_ssm, config.mamba_n_groups * config.mamba_d_state
        rows = [inner, inner, states, states, config.mamba_n_heads]
        value = value * (config.ssm_in_multiplier * np.repeat(config.ssm_multipliers, rows))[:, None].astype(np.float32)
    return value


def mixer_tensors(name, value, config):
    if name in GGUF_GLOBAL_NAMES:
        return {GGUF_GLOBAL_NAMES[name]: value}
    layer, _, rest = name.partition(".layers.")[2].partition(".")
    if rest in GGUF_LAYER_NAMES:
        new_name = GGUF_LAYER_NAMES[rest]
        if rest.startswith("shared_mlp."):
            end = "_shexp.weight" if config.num_local_experts else ".weight"
            halves = np.split(value, 2)
            parts = {"ffn_down": value} if new_name == "ffn_down" else {"ffn_gate": halves[0], "ffn_up": halves[1]}
            return {f"blk.{layer}.{part}{end}": one for part, one in parts.items()}
        return {f"blk.{layer}.{new_name}": value[:, 0] if rest == "conv.conv.weight" else value}
    mixer, _, part = rest.partition(".")
    if mixer not in ("mamba", "mixer") or part not in GGUF_MIXER_NAMES:
        return None
    new_name, change = GGUF_MIXER_NAMES[part]
    return {f"blk.{layer}.{new_name}": change(value, config)}


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


# Names of Kimi Linear, behind "self_attn.".
GGUF_KIMI_NAMES = {
    "forget_gate.dt_bias": "ssm_dt.bias", "forget_gate.f_a_proj.weight": "ssm_f_a.weight",
    "forget_gate.f_b_proj.weight": "ssm_f_b.weight", "b_proj.weight": "ssm_beta.weight",
    "g_a_proj.weight": "ssm_g_a.weight", "g_b_proj.weight": "ssm_g_b.weight", "o_norm.weight": "ssm_norm.weight",
}


def kimi_tensors(name, value):
    layer, _, rest = name.removeprefix("model.layers.").partition(".self_attn.")
    if rest in GGUF_KIMI_NAMES:
        return {f"blk.{layer}.{GGUF_KIMI_NAMES[rest]}": value}
    if rest == "forget_gate.A_log":
        return {f"blk.{layer}.ssm_a": -np.exp(value)}
    if rest == "conv1d.weight":
        return {f"blk.{layer}.ssm_conv1d_{part}.weight": rows.reshape(1, len(rows), 1, -1)
                for part, rows in zip("qkv", np.split(value, 3))}
    return None


def gguf_tensors(name, value, config):
    """Returns the GGUF tensors of one of transformers' tensors of a mixer with a state, or None for any other."""
    if config.model_type == "kimi_linear":
        return kimi_tensors(name, value)
    if config.model_type in MIXERS:
        return mixer_tensors(name, value, config)
    if ".linear_attn." in name and config.model_type == "qwen3_next":
        layer, rest = name.removeprefix("model.layers.").split(".linear_attn.")
        if rest == "in_proj_qkvz.weight":
            *qkv, z = grouped(value, config)
            return {f"blk.{layer}.attn_qkv.weight": np.concatenate(qkv), f"blk.{layer}.attn_gate.weight": z}
        new_name, change = GGUF_NEXT_NAMES[rest]
        return {f"blk.{layer}.{new_name}": change(value, config)}
    if ".linear_attn." not in name:
        return None
    layer, rest = name.removeprefix("model.layers.").split(".linear_attn.")
    new_name, change = GGUF_NAMES[rest]
    return {f"blk.{layer}.{new_name}": change(value, config)}


def gguf_metadata(config, arch):
    if config.model_type in MIXERS:
        return mixer_metadata(config, arch)
    if config.model_type == "kimi_linear":
        return {
            f"{arch}.ssm.conv_kernel": config.linear_conv_kernel_dim,
            f"{arch}.kda.head_dim": config.linear_head_dim,
            f"{arch}.attention.head_count_kv": [int(kind == "full_attention") for kind in config.layer_types],
            f"{arch}.leading_dense_block_count": config.mlp_layer_types.count("dense"),
        }
    if not arch.startswith(("qwen35", "qwen3next")):
        return {}
    return {
        f"{arch}.full_attention_interval": 1 + config.layer_types.index("full_attention"),
        f"{arch}.ssm.conv_kernel": config.linear_conv_kernel_dim,
        f"{arch}.ssm.state_size": config.linear_key_head_dim,
        f"{arch}.ssm.group_count": config.linear_num_key_heads,
        f"{arch}.ssm.time_step_rank": config.linear_num_value_heads,
        f"{arch}.ssm.inner_size": config.linear_num_value_heads * config.linear_value_head_dim,
    }


def mixer_metadata(config, arch):
    def first(*names):
        return next((getattr(config, name) for name in names if getattr(config, name, None) is not None), None)

    kinds = list(getattr(config, "layer_types", None) or getattr(config, "layers_block_type", None) or [])
    attends = [kind in ("attention", "full_attention") for kind in kinds]
    if arch in ("lfm2", "lfm2moe"):
        width = config.intermediate_size
        if getattr(config, "block_auto_adjust_ff_dim", False):
            multiple = config.block_multiple_of
            width = -(-int(config.block_ffn_dim_multiplier * int(2 * width / 3)) // multiple) * multiple
        meta = {"shortconv.l_cache": config.conv_L_cache, "feed_forward_length": width}
        if arch == "lfm2moe":
            meta.update(leading_dense_block_count=config.num_dense_layers, expert_gating_func=2,
                        expert_feed_forward_length=config.moe_intermediate_size)
    else:
        heads = first("mamba_n_heads", "mamba_num_heads", "num_heads")
        hidden = config.hidden_size
        inner = first("mamba_d_ssm") or (heads * first("mamba_d_head", "mamba_head_dim", "head_dim") if heads else
                                         first("expand", "mamba_expand") * hidden)
        meta = {
            "ssm.conv_kernel": first("conv_kernel", "mamba_d_conv"),
            "ssm.state_size": first("state_size", "mamba_d_state", "ssm_state_size"),
            "ssm.inner_size": inner,
            "ssm.time_step_rank": heads or first("time_step_rank", "mamba_dt_rank"),
        }
        if not is_scan(config):
            meta["ssm.group_count"] = num_groups(config)
        if arch in ("mamba", "mamba2"):
            meta.update({"attention.head_count": 0, "feed_forward_length": 0, "context_length": 1 << 20})
            meta["attention.layer_norm_rms_epsilon"] = float(config.layer_norm_epsilon)
        if arch == "mamba":
            meta["ssm.dt_b_c_rms"] = config.model_type == "falcon_mamba"
    if arch not in ("mamba", "mamba2", "falcon-h1"):
        meta["attention.head_count_kv"] = [config.num_key_value_heads if one else 0 for one in attends]
    if arch == "granitehybrid":
        meta["rope.scaling.finetuned"] = config.position_embedding_type == "rope"
        meta["expert_shared_feed_forward_length"] = config.shared_intermediate_size
        meta["feed_forward_length"] = config.intermediate_size if config.num_local_experts else config.shared_intermediate_size
    if arch.startswith("nemotron_h"):
        width = config.moe_intermediate_size if arch.endswith("moe") else config.intermediate_size
        meta["feed_forward_length"] = [width if kind in ("mlp", "moe") else 0 for kind in kinds]
        meta["attention.layer_norm_rms_epsilon"] = float(config.layer_norm_epsilon)
        if arch.endswith("moe"):
            meta.update(expert_shared_feed_forward_length=config.moe_shared_expert_intermediate_size,
                        expert_weights_norm=config.norm_topk_prob, expert_group_count=config.n_group,
                        expert_weights_scale=float(config.routed_scaling_factor))
    return {f"{arch}.{key}": value for key, value in meta.items()}
