"""Tiny models whose layers transformers has, but no model of such layers: Llama's or Qwen3's with some of their modules
replaced, for tools/make_model_goldens.py."""

import copy

import torch
import transformers as tf
from transformers.models.deepseek_v2 import modeling_deepseek_v2 as deepseek
from transformers.models.llama import modeling_llama as llama
from transformers.models.qwen3 import modeling_qwen3 as qwen3

from renamed_models import BAILING, BAILING_JOINED, Renaming, kept

LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)


class NoAttention(torch.nn.Module):
    def forward(self, hidden_states, **_):
        return torch.zeros_like(hidden_states), None


class NoMlp(torch.nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)


def own_layers(module, attention, mlp, heads, kv_heads, widths):
    """Returns a function that gives each layer its own heads and width; 0 means without attention, or without an MLP."""

    def reshape(model):
        for i, layer in enumerate(model.model.layers):
            config = copy.deepcopy(model.config)
            config.num_attention_heads, config.num_key_value_heads = heads[i] or 1, kv_heads[i] or 1
            config.intermediate_size = widths[i] or 1
            layer.self_attn = getattr(module, attention)(config, i) if heads[i] else NoAttention()
            layer.mlp = getattr(module, mlp)(config) if widths[i] else NoMlp()
            if not heads[i]:
                layer.input_layernorm = torch.nn.Identity()
            if not widths[i]:
                layer.post_attention_layernorm = torch.nn.Identity()

    return reshape


def counts(heads, kv_heads, widths):
    return {"attention.head_count": heads, "attention.head_count_kv": kv_heads, "feed_forward_length": widths}


class NormalizedRouter(deepseek.DeepseekV2TopkRouter):
    def forward(self, hidden_states):
        logits, weights, indices = super().forward(hidden_states)
        return logits, weights / weights.sum(-1, keepdim=True), indices


def with_experts(first_layer, normalizes, count, per_token, shared, width):
    """Returns a function that replaces the layers from `first_layer` on by experts, chosen by probabilities, beside
    a shared MLP."""

    def reshape(model):
        hidden = model.config.hidden_size
        config = tf.DeepseekV2Config(hidden_size=hidden, n_routed_experts=count, num_experts_per_tok=per_token,
                                     n_shared_experts=shared, moe_intermediate_size=width, topk_method="greedy",
                                     routed_scaling_factor=1.0)
        for layer in model.model.layers[first_layer:]:
            layer.mlp = deepseek.DeepseekV2Moe(config)
            if normalizes:
                layer.mlp.gate = NormalizedRouter(config)

    return reshape


def variants(common, rope):
    """name -> (config, stored dtype, options), as variants() of make_model_goldens."""
    heads, kv_heads, widths = [4, 0, 4], [2, 0, 1], [256, 256, 0]
    super_49b = own_layers(llama, "LlamaAttention", "LlamaMLP", heads, kv_heads, widths)
    deci = own_layers(llama, "LlamaAttention", "LlamaMLP", [4] * 3, [4, 1, 2], [56] * 3)
    elm_heads, elm_kv, elm_widths = [2, 4, 6], [1, 2, 3], [32, 48, 80]
    elm = own_layers(qwen3, "Qwen3Attention", "Qwen3MLP", elm_heads, elm_kv, elm_widths)
    experts = dict(count=6, per_token=2, shared=2, width=8)
    expert_keys = {"expert_count": 6, "expert_used_count": 2, "expert_shared_count": 2, "expert_feed_forward_length": 8,
                   "leading_dense_block_count": 1}
    return {
        "nemotron_nas": (tf.LlamaConfig(**common(hidden_size=16), **rope(**LLAMA3)), "bfloat16",
                         dict(gguf="deci", reshape=super_49b, gguf_more=counts(heads, kv_heads, widths),
                              renamed=Renaming(nemotron_nas))),
        "decilm": (tf.LlamaConfig(**common(num_key_value_heads=4), **rope()), "bfloat16",
                   dict(reshape=deci, renamed=Renaming(decilm))),
        "openelm": (tf.Qwen3Config(**common(head_dim=8, tie_word_embeddings=True), **rope()), "bfloat16",
                    dict(gguf="openelm", reshape=elm, gguf_more=counts(elm_heads, elm_kv, elm_widths),
                         renamed=Renaming(openelm(elm_heads, elm_kv), OPENELM, OPENELM_JOINED))),
        "deepseek": (tf.LlamaConfig(**common(num_hidden_layers=2, num_key_value_heads=4), **rope()), "bfloat16",
                     dict(gguf="deepseek", reshape=with_experts(1, False, **experts), renamed=Renaming(deepseek_moe),
                          gguf_more=expert_keys)),
        "bailing_moe": (tf.Qwen2Config(**common(num_hidden_layers=2), **rope()), "bfloat16",
                        dict(gguf="bailingmoe", reshape=with_experts(0, True, **experts), first_seed=1,
                             renamed=Renaming(bailing_moe, BAILING, BAILING_JOINED),
                             gguf_more=dict(expert_keys, leading_dense_block_count=0, expert_weights_norm=True))),
    }


def nemotron_nas(config):
    def block(group, factor):
        attention = dict(n_heads_in_group=group, no_op=group is None, replace_with_linear=False, window_length=None)
        ffn = dict(ffn_mult=factor, no_op=factor is None, replace_with_linear=False)
        return dict(attention=attention, ffn=ffn)

    blocks = [block(2, 16.0), block(None, 24.0), block(4, None)]  # 170.7 and 256
    return dict(kept(config, "head_dim", "rope_parameters"), architectures=["DeciLMForCausalLM"],
                model_type="nemotron-nas", num_key_value_heads=None, intermediate_size=None, block_configs=blocks)


def decilm(config):
    return dict(kept(config), architectures=["DeciLMForCausalLM"], model_type="deci", intermediate_size=56,
                rope_theta=10000.0, rope_scaling=None, num_key_value_heads_per_layer=[4, 1, 2])


def openelm(heads, kv_heads):
    def renamed(config):
        return dict(architectures=["OpenELMForCausalLM"], model_type="openelm", vocab_size=config["vocab_size"],
                    num_transformer_layers=config["num_hidden_layers"], model_dim=config["hidden_size"], head_dim=8,
                    num_query_heads=heads, num_kv_heads=kv_heads, ffn_multipliers=[1.0, 1.5, 2.4], ffn_dim_divisor=16,
                    ffn_with_glu=True, normalize_qk_projections=True, activation_fn_name="swish",
                    normalization_layer_name="rms_norm", share_input_output_layers=True, rope_freq_constant=10000,
                    rope_max_length=512, max_context_length=256, num_gqa_groups=2, torch_dtype="bfloat16")

    return renamed


OPENELM = [("model.embed_tokens", "transformer.token_embeddings"), ("model.norm", "transformer.norm"),
           ("model.layers.", "transformer.layers."), ("input_layernorm", "attn_norm"),
           ("post_attention_layernorm", "ffn_norm"), ("self_attn.o_proj", "attn.out_proj"),
           ("mlp.down_proj", "ffn.proj_2"), ("self_attn.", "attn."), ("mlp.", "ffn.")]
OPENELM_JOINED = [(("attn.q_proj", "attn.k_proj", "attn.v_proj"), "attn.qkv_proj"),
                  (("ffn.gate_proj", "ffn.up_proj"), "ffn.proj_1")]


def deepseek_moe(config):
    return dict(kept(config, "attention_bias"), architectures=["DeepseekForCausalLM"], model_type="deepseek",
                num_key_value_heads=4, rope_theta=10000.0, rope_scaling=None, n_routed_experts=6, n_shared_experts=2,
                num_experts_per_tok=2, moe_intermediate_size=8, first_k_dense_replace=1, moe_layer_freq=1,
                norm_topk_prob=False, scoring_func="softmax", aux_loss_alpha=0.001)


def bailing_moe(config):
    return dict(kept(config, "num_key_value_heads"), architectures=["BailingMoeForCausalLM"], model_type="bailing_moe",
                rope_theta=10000.0, rope_scaling=None, num_experts=6, num_shared_experts=2, num_experts_per_tok=2,
                moe_intermediate_size=8, first_k_dense_replace=0, norm_topk_prob=True, norm_head=False,
                norm_softmax=False, multi_gate=False, use_bias=False, use_qkv_bias=True, head_dim=8)
