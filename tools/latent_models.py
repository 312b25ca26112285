"""Tiny models with latent attention for tools/make_model_goldens.py: their configurations and their weights in GGUF
files."""

import contextlib

import numpy as np
import torch
import transformers as tf


class IndexGaps(contextlib.AbstractContextManager):
    """Records the smallest distance between the last score that an indexer takes and the first that it leaves. Of equal
    scores the lower position wins, which torch does not guarantee."""

    def __enter__(self):
        self.smallest = np.inf
        self.original = torch.Tensor.topk

        def topk(scores, k, *args, **kwargs):
            best = torch.sort(scores, dim=-1, descending=True, stable=True)
            if k < scores.shape[-1]:
                gaps = (best.values[..., k - 1] - best.values[..., k])
                gaps = gaps[torch.isfinite(gaps) & (best.values[..., k] > -1e30)]
                self.smallest = min(self.smallest, float(gaps.min()) if gaps.numel() else np.inf)
            return torch.return_types.topk((best.values[..., :k], best.indices[..., :k]))

        torch.Tensor.topk = topk
        return self

    def __exit__(self, *_):
        torch.Tensor.topk = self.original


def variants(common, rope):
    """name -> (config, stored dtype, options), as variants() of make_model_goldens."""
    latent = dict(q_lora_rank=16, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=6,
                  num_key_value_heads=4)
    experts = dict(n_routed_experts=8, num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=24,
                   first_k_dense_replace=1, routed_scaling_factor=1.7, num_hidden_layers=2)
    yarn = dict(rope_type="yarn", factor=4.0, beta_fast=32.0, beta_slow=1.0, original_max_position_embeddings=64,
                mscale=0.7, mscale_all_dim=0.7)
    direct = dict(latent, q_lora_rank=None)
    indexer = dict(index_topk=16, index_head_dim=8, index_n_heads=6)
    # The choice of tokens is a step function: rounding to bfloat16 changes the choice for some tokens, whose share is kept
    # small. A different choice still changes the result a hundred times as much as float32 is allowed to.
    chosen = dict(quiet={"o_proj.weight": 0.05}, index_gap=2e-5)
    return {
        "deepseek_v2_lite": (tf.DeepseekV2Config(**common(**direct, **experts, topk_method="greedy", n_group=1,
                                                          topk_group=1), **rope(**yarn)),
                             "bfloat16", dict(gguf="deepseek2", joined=True)),
        "deepseek_v2": (tf.DeepseekV2Config(**common(**latent, **dict(experts, n_shared_experts=2, num_hidden_layers=3),
                                                     topk_method="group_limited_greedy", n_group=4, topk_group=2),
                                            **rope()), "bfloat16", {}),
        "deepseek_v3": (tf.DeepseekV3Config(**common(**latent, **experts, n_group=4, topk_group=2, num_mtp_layers=0),
                                            **rope(**yarn)), "bfloat16", dict(gguf="deepseek2")),
        "kimi_k2": (tf.DeepseekV3Config(**common(**dict(latent, kv_lora_rank=32, v_head_dim=8), **experts, n_group=1,
                                                 topk_group=1, num_mtp_layers=0), **rope()),
                    "bfloat16", dict(model_type="kimi_k2")),
        "glm4_moe_lite": (tf.Glm4MoeLiteConfig(**common(**dict(latent, qk_nope_head_dim=12, v_head_dim=16),
                                                        **without(experts, "first_k_dense_replace"), n_group=1,
                                                        topk_group=1, mlp_layer_types=["dense", "sparse"]),
                                               **rope()), "bfloat16", dict(gguf="deepseek2")),
        "youtu": (tf.YoutuConfig(**common(**latent, tie_word_embeddings=True), **rope()), "bfloat16",
                  dict(gguf="deepseek2")),
        "axk1": (tf.AXK1Config(**common(**latent, **without(experts, "first_k_dense_replace"), n_group=4, topk_group=2,
                                       mlp_layer_types=["dense", "sparse"]), **rope(**yarn)), "bfloat16", {}),
        "deepseek_v32": (tf.DeepseekV32Config(**common(**latent, **experts, n_group=4, topk_group=2, **indexer),
                                              **rope(**yarn)), "bfloat16", chosen),
        # The last layer uses the tokens that the first one has chosen.
        "glm_moe_dsa": (tf.GlmMoeDsaConfig(**common(**dict(latent, qk_nope_head_dim=12, v_head_dim=16), **experts,
                                                    **indexer, indexer_types=["full", "shared"]), **rope()),
                        "bfloat16", chosen),
        "minicpm3": (tf.MiniCPM3Config(**common(**latent, scale_emb=3.0, scale_depth=1.1, dim_model_base=16), **rope()),
                     "bfloat16", {}),
        # GGUF files state neither the multipliers nor the width of values.
        "minicpm3_plain": (tf.MiniCPM3Config(**common(**dict(latent, v_head_dim=8), scale_emb=12.0, scale_depth=1.4,
                                                      dim_model_base=256, num_hidden_layers=2), **rope()),
                           "bfloat16", dict(gguf="minicpm3", joined=True)),
    }


def without(fields, name):
    return {key: value for key, value in fields.items() if key != name}


GGUF_NAMES = {
    "q_proj": "attn_q", "q_a_proj": "attn_q_a", "q_a_layernorm": "attn_q_a_norm", "q_b_proj": "attn_q_b",
    "kv_a_proj_with_mqa": "attn_kv_a_mqa", "kv_a_layernorm": "attn_kv_a_norm", "kv_b_proj": "attn_kv_b",
}


def gguf_tensors(name, value, config, joined):
    """Returns the GGUF tensors of one of transformers' tensors of latent attention, or None for any other. With
    `joined`, one tensor expands keys and values, as older converters wrote it."""
    if getattr(config, "kv_lora_rank", None) is None or ".self_attn." not in name:
        return None
    layer, rest = name.removeprefix("model.layers.").split(".self_attn.")
    stem, suffix = rest.rsplit(".", 1)
    if stem not in GGUF_NAMES:
        return None
    if stem != "kv_b_proj" or joined:
        return {f"blk.{layer}.{GGUF_NAMES[stem]}.{suffix}": value}
    heads = value.reshape(config.num_attention_heads, -1, config.kv_lora_rank)
    keys, values = heads[:, :config.qk_nope_head_dim], heads[:, config.qk_nope_head_dim:]
    return {f"blk.{layer}.attn_k_b.weight": keys.swapaxes(1, 2), f"blk.{layer}.attn_v_b.weight": values}


def gguf_metadata(config, arch, joined):
    if getattr(config, "kv_lora_rank", None) is None:
        return {}
    head = config.qk_nope_head_dim + config.qk_rope_head_dim
    is_v3 = config.model_type in ("deepseek_v3", "glm4_moe_lite")
    by_sigmoid = is_v3 or config.model_type == "kimi_linear"
    num_groups = getattr(config, "n_group", 1)
    meta = {
        "attention.head_count_kv": config.num_attention_heads if joined else 1,
        "attention.key_length": head if joined else config.kv_lora_rank + config.qk_rope_head_dim,
        "attention.value_length": config.v_head_dim if joined else config.kv_lora_rank,
        "attention.kv_lora_rank": config.kv_lora_rank,
        "attention.q_lora_rank": config.q_lora_rank,
        "rope.dimension_count": config.qk_rope_head_dim,
    }
    if hasattr(config, "routed_scaling_factor"):
        meta.update({
            "expert_weights_scale": float(config.routed_scaling_factor),
            "expert_weights_norm": None if config.model_type == "kimi_linear" else is_v3,
            "expert_gating_func": 2 if by_sigmoid else 1,
            "expert_group_count": num_groups if num_groups > 1 else None,
            "expert_group_used_count": config.topk_group if num_groups > 1 else None,
        })
    if arch == "minicpm3":  # values are as wide as heads would be in the hidden state
        del meta["attention.value_length"]
    if not joined:
        meta.update({"attention.key_length_mla": head, "attention.value_length_mla": config.v_head_dim})
    return {f"{arch}.{key}": value for key, value in meta.items() if value is not None}
