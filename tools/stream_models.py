"""Tiny models with several residual streams (Gemma 3n) for tools/make_model_goldens.py: their configurations and their
weights in GGUF files."""

import numpy as np
import torch
import transformers as tf


def variants(common):
    """name -> (config, stored dtype, options), as variants() of make_model_goldens."""
    kinds = ["sliding_attention", "full_attention"] * 2
    quiet = {"post_attention_layernorm.weight": 0.5, "post_feedforward_layernorm.weight": 0.5,
             "post_laurel_norm.weight": 0.5, "post_per_layer_input_norm.weight": 0.5, "_coefs.weight": 0.4}
    base = dict(num_hidden_layers=4, head_dim=8, sliding_window=8, tie_word_embeddings=True, layer_types=kinds,
                hidden_size_per_layer_input=8, vocab_size_per_layer_input=150, laurel_rank=8, num_kv_shared_layers=2,
                intermediate_size=[32, 40, 32, 40], activation_sparsity_pattern=[0.9, 0.0, 0.3, 0.6],
                final_logit_softcapping=9.0)
    ropes = dict(full_attention=dict(rope_type="linear", factor=4.0, rope_theta=1e6),
                 sliding_attention=dict(rope_type="default", rope_theta=500.0))
    return {
        "gemma3n": (tf.Gemma3nTextConfig(**common(**base)), "bfloat16",
                    dict(gguf="gemma3n", wrap_plain=("gemma3n", "gemma3n_text"), quiet=quiet)),
        # Another number of streams, another active one, an untied head, biases, and scaled rope.
        "gemma3n_streams": (tf.Gemma3nTextConfig(**common(**dict(
            base, altup_num_inputs=3, altup_active_idx=1, altup_correct_scale=False, tie_word_embeddings=False,
            attention_bias=True, num_kv_shared_layers=0, activation_sparsity_pattern=None,
            hidden_activation="silu", rope_parameters=ropes))), "bfloat16", dict(quiet=quiet)),
    }


GGUF_NAMES = {
    "per_layer_input_gate.weight": "inp_gate.weight",
    "per_layer_projection.weight": "proj.weight",
    "post_per_layer_input_norm.weight": "post_norm.weight",
    "altup.correct_output_scale": "altup_correct_scale.weight",
    "altup.correction_coefs.weight": "altup_correct_coef.weight",
    "altup.prediction_coefs.weight": "altup_predict_coef.weight",
    "altup.modality_router.weight": "altup_router.weight",
    "altup.router_norm.weight": "altup_router_norm.weight",
    "laurel.linear_left.weight": "laurel_l.weight",
    "laurel.linear_right.weight": "laurel_r.weight",
    "laurel.post_laurel_norm.weight": "laurel_post_norm.weight",
}
GGUF_GLOBAL_NAMES = {
    "model.embed_tokens_per_layer.weight": "per_layer_token_embd.weight",
    "model.per_layer_model_projection.weight": "per_layer_model_proj.weight",
    "model.per_layer_projection_norm.weight": "per_layer_proj_norm.weight",
}


def stacked_streams(tensors):
    """Joins the projections of all streams into one tensor."""
    for stem, name in (("model.altup_projections.", "altup_proj.weight"),
                       ("model.altup_unembed_projections.", "altup_unembd_proj.weight")):
        parts = sorted(key for key in tensors if key.startswith(stem))
        if parts:
            tensors[name] = np.stack([tensors.pop(key) for key in parts])


def gguf_tensors(name, value, arch):
    """Returns the GGUF tensors of one of transformers' tensors that only these models have, or None for any other."""
    if arch != "gemma3n":
        return None
    if name.startswith("altup_"):
        return {name: value}
    if name in GGUF_GLOBAL_NAMES:
        return {GGUF_GLOBAL_NAMES[name]: value}
    layer, _, rest = name.removeprefix("model.layers.").partition(".")
    return {f"blk.{layer}.{GGUF_NAMES[rest]}": value} if rest in GGUF_NAMES else None


def gguf_metadata(config, arch):
    if arch != "gemma3n":
        return {}
    normal = torch.distributions.normal.Normal(0, 1)
    meta = {
        "attention.shared_kv_layers": config.num_kv_shared_layers,
        "attention.sliding_window": config.sliding_window,
        "attention.sliding_window_pattern": [kind == "sliding_attention" for kind in config.layer_types],
        "embedding_length_per_layer_input": config.hidden_size_per_layer_input,
        "altup.active_idx": config.altup_active_idx,
        "altup.num_inputs": config.altup_num_inputs,
        "activation_sparsity_scale": [normal.icdf(torch.tensor(share)).item()
                                      for share in config.activation_sparsity_pattern],
        "rope.freq_base_swa": float(config.rope_parameters["sliding_attention"]["rope_theta"]),
        "final_logit_softcapping": float(config.final_logit_softcapping),
        "feed_forward_length": config.intermediate_size,
    }
    return {f"{arch}.{key}": value for key, value in meta.items()}


def wrap_plain(config, model_type, text_type):
    """Returns the file of a model of several parts with this text part."""
    return {"model_type": model_type, "text_config": dict(config, model_type=text_type), "vision_config": {}}
