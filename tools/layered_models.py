"""Tiny models whose layers differ in shape and share keys and values for tools/make_model_goldens.py: their
configurations and their weights in GGUF files."""

import numpy as np
import transformers as tf


def variants(common):
    """name -> (config, stored dtype, options), as variants() of make_model_goldens."""
    base = dict(num_hidden_layers=6, head_dim=12, global_head_dim=20, sliding_window=8, tie_word_embeddings=True,
                hidden_size_per_layer_input=0, vocab_size_per_layer_input=160, final_logit_softcapping=9.0,
                layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2)
    alike = dict(attention_k_eq_v=True, num_global_key_value_heads=1)
    experts = dict(enable_moe_block=True, num_experts=6, top_k_experts=2, moe_intermediate_size=16)
    return {
        "gemma4": (tf.Gemma4TextConfig(**common(**base, **alike)), "bfloat16", dict(gguf="gemma4", released=True)),
        "gemma4_shared": (tf.Gemma4TextConfig(**common(**dict(base, hidden_size_per_layer_input=8), num_kv_shared_layers=3,
                                                       use_double_wide_mlp=True)),
                          "bfloat16", dict(gguf="gemma4")),
        "gemma4_moe": (tf.Gemma4TextConfig(**common(**dict(base, num_hidden_layers=3, layer_types=base["layer_types"][:3]),
                                                    **alike, **experts)), "bfloat16", dict(gguf="gemma4")),
        "gemma4_unified": (tf.Gemma4UnifiedTextConfig(**common(**without_layer_inputs(base), **alike)), "bfloat16", {}),
        # The heads are as wide as in the released models.
        "gemma4_wide": (tf.Gemma4TextConfig(**common(**dict(base, num_hidden_layers=2, head_dim=256, global_head_dim=512,
                                                            layer_types=base["layer_types"][1:3], hidden_size=16,
                                                            num_attention_heads=2, num_key_value_heads=1))),
                        "bfloat16", {}),
    }


def without_layer_inputs(fields):
    """Returns three of the layers, in a class without inputs of layers."""
    kept = {key: value for key, value in fields.items() if not key.endswith("_per_layer_input")}
    return dict(kept, num_hidden_layers=3, layer_types=fields["layer_types"][:3])


GGUF_NAMES = {
    "post_feedforward_layernorm_1.weight": "post_ffw_norm_1.weight",
    "post_feedforward_layernorm_2.weight": "post_ffw_norm_2.weight",
    "pre_feedforward_layernorm_2.weight": "pre_ffw_norm_2.weight",
    "layer_scalar": "layer_output_scale.weight",
    "router.proj.weight": "ffn_gate_inp.weight",
    "router.scale": "ffn_gate_inp.scale",
    "router.per_expert_scale": "ffn_down_exps.scale",
    "experts.gate_up_proj": "ffn_gate_up_exps.weight",
    "experts.down_proj": "ffn_down_exps.weight",
    "per_layer_input_gate.weight": "inp_gate.weight",
    "per_layer_projection.weight": "proj.weight",
    "post_per_layer_input_norm.weight": "post_norm.weight",
}
GGUF_GLOBAL_NAMES = {
    "model.embed_tokens_per_layer.weight": "per_layer_token_embd.weight",
    "model.per_layer_model_projection.weight": "per_layer_model_proj.weight",
    "model.per_layer_projection_norm.weight": "per_layer_proj_norm.weight",
}


def gguf_tensors(name, value, arch):
    """Returns the GGUF tensors of one of transformers' tensors that only these models have, or None for any other."""
    if arch != "gemma4":
        return None
    if name in GGUF_GLOBAL_NAMES:
        return {GGUF_GLOBAL_NAMES[name]: value}
    layer, _, rest = name.removeprefix("model.layers.").partition(".")
    return {f"blk.{layer}.{GGUF_NAMES[rest]}": value} if rest in GGUF_NAMES else None


def released_config(config):
    """Returns the configuration in the form of released files, instead of the form per layer of newer versions of
    transformers."""
    shape = next(iter(config.pop("per_layer_config").values()))
    return dict(config, global_head_dim=shape["head_dim"],
                num_global_key_value_heads=shape.get("num_key_value_heads"))


def gguf_rope_freqs(config):
    """Returns the divisors of rotary frequencies, which leave the pairs unrotated that proportional rope does not
    rotate."""
    pairs = config.per_layer_config["full_attention"].head_dim // 2
    rotated = int(config.rope_parameters["full_attention"]["partial_rotary_factor"] * pairs)
    return np.array([1.0] * rotated + [1e30] * (pairs - rotated), np.float32)


def gguf_metadata(config, arch):
    if arch != "gemma4":
        return {}
    full = config.per_layer_config["full_attention"]
    sliding = [kind == "sliding_attention" for kind in config.layer_types]
    first_shared = config.num_hidden_layers - config.num_kv_shared_layers
    wide = 2 if config.use_double_wide_mlp else 1
    meta = {
        "attention.shared_kv_layers": config.num_kv_shared_layers,
        "embedding_length_per_layer_input": config.hidden_size_per_layer_input,
        "attention.sliding_window_pattern": sliding,
        "attention.key_length": full.head_dim,
        "attention.value_length": full.head_dim,
        "attention.key_length_swa": config.head_dim,
        "attention.value_length_swa": config.head_dim,
        "rope.dimension_count": full.head_dim,
        "rope.dimension_count_swa": config.head_dim,
        "rope.freq_base_swa": float(config.rope_parameters["sliding_attention"]["rope_theta"]),
        "final_logit_softcapping": float(config.final_logit_softcapping),
    }
    if wide > 1:
        meta["feed_forward_length"] = [config.intermediate_size * (1 if i < first_shared else wide)
                                       for i in range(config.num_hidden_layers)]
    if config.attention_k_eq_v:
        meta["attention.head_count_kv"] = [config.num_key_value_heads if one else full.num_key_value_heads
                                           for one in sliding]
    if config.enable_moe_block:
        meta["expert_used_count"] = config.top_k_experts
    return {f"{arch}.{key}": value for key, value in meta.items()}
