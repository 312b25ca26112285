"""Tiny mixtures of experts for tools/make_model_goldens.py: their configurations, their weights in GGUF files, and how
close their routers come to another choice."""

import contextlib

import numpy as np
import safetensors.torch
import torch
import transformers as tf

from renamed_models import BAILING, BAILING_JOINED, Renaming, kept

VOCAB = 160
DBRX_EXPERTS = 4
MIN_ROUTER_GAP = 1e-3  # below this a golden would depend on ties


def variants(common, rope):
    """name -> (config, stored dtype, options), as variants() of make_model_goldens."""
    experts = dict(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=24)
    local = dict(num_local_experts=6, num_experts_per_tok=2, intermediate_size=24)
    two = dict(num_hidden_layers=2)
    llama4 = dict(intermediate_size=16, intermediate_size_mlp=40, num_local_experts=4, num_experts_per_tok=1,
                  head_dim=12, num_hidden_layers=4)
    oss = dict(intermediate_size=16, head_dim=8, num_local_experts=4, num_experts_per_tok=2,
               sliding_window=8, swiglu_limit=0.5, num_hidden_layers=2)
    yarn = dict(rope_type="yarn", factor=8.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
                original_max_position_embeddings=32)
    return {
        "gpt_oss": (tf.GptOssConfig(**common(**oss), **rope(**yarn, rope_theta=150000.0)), "bfloat16", {}),
        # GGUF files do not state the limit; it is always 7.
        "gpt_oss_limit_7": (tf.GptOssConfig(**common(**dict(oss, swiglu_limit=7.0)),
                                            **rope(**yarn, rope_theta=150000.0)), "bfloat16", dict(gguf="gpt-oss")),
        "qwen3_moe": (tf.Qwen3MoeConfig(**common(**two, head_dim=12, **dict(experts, num_experts_per_tok=3),
                                                 norm_topk_prob=True), **rope(rope_theta=1e6)),
                      "bfloat16", dict(gguf="qwen3moe")),
        "qwen3_moe_mixed": (tf.Qwen3MoeConfig(**common(head_dim=12, **experts, mlp_only_layers=[1]), **rope()),
                            "bfloat16", {}),
        "qwen2_moe": (tf.Qwen2MoeConfig(**common(**two, **experts, shared_expert_intermediate_size=40), **rope()),
                      "bfloat16", dict(gguf="qwen2moe")),
        "qwen2_moe_step": (tf.Qwen2MoeConfig(**common(**experts, shared_expert_intermediate_size=20,
                                                      decoder_sparse_step=2, norm_topk_prob=True), **rope()),
                           "bfloat16", {}),
        "mixtral": (tf.MixtralConfig(**common(**two, **dict(local, num_local_experts=4), sliding_window=None), **rope()),
                    "bfloat16", dict(gguf="llama")),
        "olmoe": (tf.OlmoeConfig(**common(**two, num_experts=6, num_experts_per_tok=2, intermediate_size=24), **rope()), "bfloat16",
                  dict(gguf="olmoe")),
        "granitemoe": (tf.GraniteMoeConfig(**common(**two, **local, embedding_multiplier=3.0, logits_scaling=2.0,
                                                    residual_multiplier=0.6, attention_multiplier=0.2), **rope()),
                       "bfloat16", dict(gguf="granitemoe")),
        "granitemoeshared": (tf.GraniteMoeSharedConfig(**common(**two, **local, shared_intermediate_size=20,
                                                                embedding_multiplier=3.0, logits_scaling=2.0,
                                                                residual_multiplier=0.6, attention_multiplier=0.2),
                                                       **rope()),
                             "bfloat16", {}),
        "phimoe": (tf.PhimoeConfig(**common(**two, **local, attention_bias=True,
                                            lm_head_bias=True), **rope()), "bfloat16", dict(gguf="phimoe", first_seed=1)),
        "ernie4_5_moe": (tf.Ernie4_5_MoeConfig(**common(moe_num_experts=8, moe_k=2, moe_intermediate_size=24,
                                                        moe_num_shared_experts=2, moe_layer_start_index=1,
                                                        tie_word_embeddings=True), **rope()),
                         "bfloat16", dict(gguf="ernie4_5-moe")),
        "minimax_m2": (tf.MiniMaxM2Config(**common(**two, **local, head_dim=16), **rope(partial_rotary_factor=0.5)),
                       "bfloat16", dict(gguf="minimax-m2", first_seed=1)),
        "glm4_moe": (tf.Glm4MoeConfig(**common(n_routed_experts=8, num_experts_per_tok=2, n_shared_experts=1,
                                               moe_intermediate_size=24, first_k_dense_replace=1, head_dim=16,
                                               routed_scaling_factor=1.7, attention_bias=True, use_qk_norm=True,
                                               num_mtp_layers=0), **rope(partial_rotary_factor=0.5)),
                     "bfloat16", dict(gguf="glm4moe")),
        "dots1": (tf.Dots1Config(**common(n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=2, num_hidden_layers=2,
                                          moe_intermediate_size=16, first_k_dense_replace=1, head_dim=12,
                                          norm_topk_prob=True, routed_scaling_factor=1.7), **rope()),
                  "bfloat16", dict(gguf="dots1", first_seed=3)),
        "solar_open": (tf.SolarOpenConfig(**without(common(n_routed_experts=8, num_experts_per_tok=2,
                                                           n_shared_experts=1, moe_intermediate_size=16, head_dim=12,
                                                           routed_scaling_factor=1.7, num_hidden_layers=2),
                                                    "intermediate_size"), **rope()), "bfloat16", dict(gguf="glm4moe")),
        "exaone_moe": (tf.ExaoneMoeConfig(**common(num_experts=4, num_experts_per_tok=2, num_shared_experts=1,
                                                   moe_intermediate_size=16, sliding_window=9, num_hidden_layers=4,
                                                   first_k_dense_replace=1), **rope()),
                       "bfloat16", dict(gguf="exaone-moe", first_seed=5)),
        "hy_v3": (tf.HYV3Config(**common(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=16, head_dim=12),
                                **rope()), "bfloat16", {}),
        "afmoe": (tf.AfmoeConfig(**common(num_experts=4, num_experts_per_tok=2, num_shared_experts=2,
                                          moe_intermediate_size=16, num_dense_layers=1, head_dim=12,
                                          num_hidden_layers=4, sliding_window=9, mup_enabled=True, route_scale=1.7),
                                 **rope()), "bfloat16", dict(gguf="afmoe")),
        "llama4": (tf.Llama4TextConfig(**common(**llama4, attention_chunk_size=12, floor_scale=9, attn_scale=0.4,
                                                interleave_moe_layer_step=2), **rope(rope_theta=1e4)), "bfloat16",
                   dict(min_router_gap=0.02)),
        # All GGUF files of the architecture have chunks and scales of 8192 tokens.
        "llama4_long_chunks": (tf.Llama4TextConfig(**common(**llama4, interleave_moe_layer_step=4), **rope(
            rope_type="llama3", rope_theta=1e4, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
            original_max_position_embeddings=32)), "bfloat16", dict(gguf="llama4", min_router_gap=0.02)),
        "hunyuan_v1_moe": (tf.HunYuanMoEV1Config(**common(num_experts=8, moe_topk=2, head_dim=12,
                                                          num_hidden_layers=2, intermediate_size=24),
                                                 **rope(rope_type="dynamic", alpha=50.0, factor=1.0, mscale=1.0,
                                                        mscale_all_dim=0.0)),
                           "bfloat16", dict(gguf="hunyuan-moe")),
        "qwen3_vl_moe": (tf.Qwen3MoeConfig(**common(**two, head_dim=12, **experts, norm_topk_prob=True),
                                           **rope(rope_theta=5e6)), "bfloat16",
                         dict(gguf="qwen3vlmoe", stacked=True, first_seed=1,
                              wrap_text=("qwen3_vl_moe", "qwen3_vl_moe_text", dict(
                                  rope_type="default", mrope_interleaved=True, mrope_section=[2, 2, 2])))),
        "flex_olmo": (tf.FlexOlmoConfig(**common(**two, num_experts=6, num_experts_per_tok=2, intermediate_size=24), **rope()),
                      "bfloat16", {}),
        "mellum": (tf.MellumConfig(**common(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=24, head_dim=12,
                                            sliding_window=9, layer_types=["sliding_attention", "full_attention",
                                                                           "sliding_attention"],
                                            mlp_layer_types=["dense", "sparse", "sparse"]),
                                   rope_parameters=dict(full_attention=dict(yarn, rope_theta=500000.0),
                                                        sliding_attention=dict(rope_type="default", rope_theta=10000.0))),
                   "bfloat16", {}),
        "cohere2_moe": (tf.Cohere2MoeConfig(**common(num_hidden_layers=5, sliding_window=9, head_dim=8, num_experts=4,
                                                     num_experts_per_tok=2, intermediate_size=12,
                                                     prefix_dense_intermediate_size=40, first_k_dense_replace=1,
                                                     num_shared_experts=1, shared_expert_combination_strategy="sum",
                                                     expert_selection_fn="sigmoid", logit_scale=0.4,
                                                     tie_word_embeddings=True), **rope()), "bfloat16", {}),
        "cohere2_moe_softmax": (tf.Cohere2MoeConfig(**common(num_hidden_layers=4, sliding_window=9, head_dim=8,
                                                             num_experts=4, num_experts_per_tok=2, intermediate_size=16,
                                                             rms_norm_eps=1e-5, logit_scale=0.4,
                                                             tie_word_embeddings=True), **rope()), "bfloat16", {}),
        "dbrx": (tf.DbrxConfig(vocab_size=VOCAB, d_model=32, n_heads=4, n_layers=2, max_seq_len=256, bos_token_id=1,
                               eos_token_id=2, attn_config=dict(kv_n_heads=2, clip_qkv=0.9, rope_theta=10000.0),
                               ffn_config=dict(ffn_hidden_size=24, moe_num_experts=DBRX_EXPERTS, moe_top_k=2), **rope()), "bfloat16",
                 dict(gguf="dbrx", gguf_more={"feed_forward_length": 24, "expert_count": DBRX_EXPERTS, "expert_used_count": 2,
                                              "attention.layer_norm_epsilon": 1e-5})),
        "aria_text": (tf.AriaTextConfig(**common(**two, intermediate_size=24, moe_num_experts=6, moe_topk=2,
                                                 moe_num_shared_experts=2), **rope()), "bfloat16", {}),
        "granitemoe_swa": (tf.GraniteMoeSWAConfig(**common(**dict(local, num_local_experts=4), num_hidden_layers=3, sliding_window=9,
                                                           embedding_multiplier=3.0, logits_scaling=2.0,
                                                           residual_multiplier=0.6, attention_multiplier=0.2,
                                                           layer_rope_theta=[10000, 0, 10000]), **rope()),
                           "bfloat16", {}),
        "flint": (tf.FlintConfig(**common(**experts, shared_expert_intermediate_size=20, sliding_window=9, head_dim=12,
                                          mlp_only_layers=[0], layer_types=["full_attention", "sliding_attention",
                                                                            "sliding_attention"]), **rope()), "bfloat16", {}),
        "bailing_moe_v2": (tf.Glm4MoeConfig(**common(n_routed_experts=8, num_experts_per_tok=2, n_shared_experts=1,
                                                     moe_intermediate_size=8, first_k_dense_replace=1, head_dim=8,
                                                     n_group=4, topk_group=2, routed_scaling_factor=2.5,
                                                     num_hidden_layers=2, use_qk_norm=True, num_mtp_layers=0),
                                            **rope(partial_rotary_factor=0.5)), "bfloat16",
                           dict(gguf="bailingmoe2", renamed=Renaming(bailing_moe_v2, BAILING, BAILING_JOINED))),
        "glm4_moe_groups": (tf.Glm4MoeConfig(**common(n_routed_experts=8, num_experts_per_tok=2, n_shared_experts=2,
                                                      moe_intermediate_size=16, first_k_dense_replace=1, head_dim=8,
                                                      n_group=4, topk_group=2, norm_topk_prob=False, num_mtp_layers=0),
                                             **rope(partial_rotary_factor=0.5)), "bfloat16", {}),
    }


def bailing_moe_v2(config):
    return dict(kept(config, "num_key_value_heads", "head_dim", "num_experts_per_tok", "moe_intermediate_size", "n_group",
                     "topk_group", "norm_topk_prob", "routed_scaling_factor", "first_k_dense_replace"),
                architectures=["BailingMoeV2ForCausalLM"], model_type="bailing_moe_v2", num_experts=8, num_shared_experts=1,
                partial_rotary_factor=0.5, rope_theta=10000.0, rope_scaling=None, score_function="sigmoid", use_bias=False,
                use_qkv_bias=False, use_qk_norm=True, num_nextn_predict_layers=0, moe_router_enable_expert_bias=True)


def without(fields, name):
    return {key: value for key, value in fields.items() if key != name}


def apart(state):
    """Returns the tensors of transformers' state under the names of checkpoints: one view per expert's matrix, however they
    are stored in memory."""
    for key, tensor in state.items():
        stem, _, name = key.rpartition(".")
        if not stem.endswith(".experts"):
            yield key, tensor
            continue
        for expert, matrix in enumerate(tensor):
            parts = dict(zip(("gate_proj", "up_proj"), matrix.chunk(2))) if name == "gate_up_proj" else {name: matrix}
            for part, rows in parts.items():
                yield f"{stem}.{expert}.{part}.weight", rows


def stack_inputs_first(path):
    """Returns all experts of a layer in two tensors, gate and up side by side, with the inputs as the first dimension."""
    tensors = safetensors.torch.load_file(path)
    layers = {}
    for name in [name for name in tensors if ".experts." in name]:
        stem, rest = name.split(".experts.")
        expert, part, _ = rest.split(".")
        layers.setdefault(stem, {})[int(expert), part] = tensors.pop(name).T
    for stem, parts in layers.items():
        count = len(parts) // 3
        tensors[f"{stem}.experts.gate_up_proj"] = torch.stack(
            [torch.cat([parts[e, "gate_proj"], parts[e, "up_proj"]], dim=1) for e in range(count)])
        tensors[f"{stem}.experts.down_proj"] = torch.stack([parts[e, "down_proj"] for e in range(count)]).contiguous()
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})


def is_router(name):
    return name.endswith(("mlp.gate.weight", "mlp.router.weight"))


def router_scale(name):
    """Returns the factor of a router's weights, which spreads the logits so that few choices are close."""
    is_router = name.endswith(("mlp.gate.weight", "mlp.router.weight", "moe.gate.weight", "router.layer.weight",
                               "mlp.router.gate.weight", "feed_forward.router.weight", "mlp.gate.wg.weight", "router.proj.weight"))
    return 2.5 if is_router else 1.0


class RouterGaps(contextlib.AbstractContextManager):
    """Records the smallest relative distance between the last score that torch.topk takes and the first that it leaves; for
    probabilities, the distance of the logits."""

    def __enter__(self):
        self.smallest = np.inf
        self.original = torch.topk

        def topk(values, k, *args, **kwargs):
            if 1 <= k < values.shape[-1] <= 64:  # not the vocabulary
                best = self.original(values, k + 1, dim=-1).values
                last, next_one = best[..., k - 1], best[..., k]
                self.smallest = min(self.smallest, float(((last - next_one) / last.abs()).min()))
            return self.original(values, k, *args, **kwargs)

        torch.topk = topk
        return self

    def __exit__(self, *_):
        torch.topk = self.original


# The part of a name behind "layers.N." in transformers' state, and its name behind "blk.N." in GGUF files.
GGUF_NAMES = {
    "mlp.gate.weight": "ffn_gate_inp.weight",
    "block_sparse_moe.gate.weight": "ffn_gate_inp.weight",
    "block_sparse_moe.router.weight": "ffn_gate_inp.weight",
    "block_sparse_moe.router.layer.weight": "ffn_gate_inp.weight",
    "mlp.router.weight": "ffn_gate_inp.weight",
    "mlp.router.bias": "ffn_gate_inp.bias",
    "self_attn.sinks": "attn_sinks.weight",
    "mlp.gate.e_score_correction_bias": "exp_probs_b.bias",
    "mlp.e_score_correction_bias": "exp_probs_b.bias",
    "mlp.expert_bias": "exp_probs_b.bias",
    "mlp.router.gate.weight": "ffn_gate_inp.weight",
    "mlp.gate.wg.weight": "ffn_gate_inp.weight",
    "feed_forward.router.weight": "ffn_gate_inp.weight",
    "mlp.gate.moe_statics.e_score_correction_bias": "exp_probs_b.bias",
    "mlp.shared_expert_gate.weight": "ffn_gate_inp_shexp.weight",
}
for shared in ("mlp.shared_expert", "mlp.shared_experts", "mlp.shared_mlp", "feed_forward.shared_expert"):
    for part in ("gate", "up", "down"):
        GGUF_NAMES[f"{shared}.{part}_proj.weight"] = f"ffn_{part}_shexp.weight"


def gguf_tensors(name, value, arch):
    """Returns the GGUF tensors of one of transformers' expert tensors, or None for any other tensor."""
    interleaved = arch == "gpt-oss"  # and with the inputs first
    if arch == "dbrx":
        return dbrx_tensors(name, value)
    if not name.startswith("model.layers."):
        return None
    layer, rest = name.removeprefix("model.layers.").split(".", 1)
    if rest in GGUF_NAMES:
        one = value.reshape(-1) if rest.endswith(("bias", "shared_expert_gate.weight")) else value
        return {f"blk.{layer}.{GGUF_NAMES[rest]}": one}
    stem = rest.rsplit(".", 1)[-1]
    if ".experts." not in rest:
        return None
    if stem.endswith("_bias"):
        stem = stem.removesuffix("_bias")
        parts = dict(gate=value[:, 0::2], up=value[:, 1::2]) if stem == "gate_up_proj" else dict(down=value)
        return {f"blk.{layer}.ffn_{part}_exps.bias": one for part, one in parts.items()}
    if interleaved:
        value = value.swapaxes(1, 2)
        parts = dict(gate=value[:, 0::2], up=value[:, 1::2]) if stem == "gate_up_proj" else dict(down=value)
        return {f"blk.{layer}.ffn_{part}_exps.weight": one for part, one in parts.items()}
    if arch == "llama4":  # inputs first
        value = value.swapaxes(1, 2)
    if stem == "gate_up_proj":
        half = value.shape[1] // 2
        return {f"blk.{layer}.ffn_gate_exps.weight": value[:, :half], f"blk.{layer}.ffn_up_exps.weight": value[:, half:]}
    return {f"blk.{layer}.ffn_down_exps.weight": value}


def dbrx_tensors(name, value):
    """Returns the same for DBRX, whose experts are stored one after the other, the last matrices with the inputs first."""
    layer, _, rest = name.removeprefix("transformer.blocks.").partition(".")
    names = {"norm_attn_norm.norm_2.weight": "attn_output_norm", "ffn.router.layer.weight": "ffn_gate_inp",
             "ffn.experts.mlp.w1": "ffn_gate_exps", "ffn.experts.mlp.v1": "ffn_up_exps",
             "ffn.experts.mlp.w2": "ffn_down_exps"}
    if rest not in names:
        return None
    if ".experts." in rest:
        value = value.reshape(DBRX_EXPERTS, -1, value.shape[-1])
    if rest.endswith("w2"):
        value = value.swapaxes(1, 2)
    return {f"blk.{layer}.{names[rest]}.weight": value}


def gguf_metadata(config, arch):
    count = next((getattr(config, key) for key in ("num_experts", "num_local_experts", "n_routed_experts")
                  if getattr(config, key, 0)), 0)
    if not count or arch == "nemotron_h":
        return {}
    meta = {f"{arch}.expert_count": count, f"{arch}.expert_used_count": getattr(config, "num_experts_per_tok", None) or
                                                               config.top_k_experts}
    optional = {
        "expert_feed_forward_length": getattr(config, "moe_intermediate_size", None),
        "expert_shared_feed_forward_length": getattr(config, "shared_expert_intermediate_size", None),
        "expert_shared_count": getattr(config, "n_shared_experts", getattr(config, "moe_num_shared_experts",
                                                                               getattr(config, "num_shared_experts", None))),
        "leading_dense_block_count": getattr(config, "first_k_dense_replace",
                                             getattr(config, "moe_layer_start_index", None)),
    }
    if arch in ("glm4moe", "dots1", "exaone-moe", "afmoe", "bailingmoe2"):
        scale = config.route_scale if arch == "afmoe" else config.routed_scaling_factor
        optional.update(expert_weights_norm=bool(getattr(config, "norm_topk_prob", True)),
                        expert_weights_scale=float(scale), expert_gating_func=2)
    if arch == "bailingmoe2":
        optional.update(expert_group_count=config.n_group, expert_group_used_count=config.topk_group)
    if config.model_type == "solar_open":
        optional.update(leading_dense_block_count=0)
    if arch == "afmoe":
        optional.update(leading_dense_block_count=config.num_dense_layers)
    if config.model_type in ("exaone_moe", "glm4_moe_lite"):
        optional.update(leading_dense_block_count=config.mlp_layer_types.count("dense"))
    if arch == "llama4":
        optional.update(expert_feed_forward_length=config.intermediate_size,
                        interleave_moe_layer_step=config.interleave_moe_layer_step)
    if arch == "ernie4_5-moe":
        optional["interleave_moe_layer_step"] = config.moe_layer_interval
    meta.update({f"{arch}.{key}": value for key, value in optional.items() if value is not None})
    return meta
