"""Tiny models of families that transformers does not have, computed as a family that it has and written as theirs, for
tools/make_model_goldens.py."""

import dataclasses
import json
import typing

import safetensors.torch
import torch
import transformers as tf


@dataclasses.dataclass
class Renaming:
    """Describes how a family writes a model that transformers computes under another name."""
    config: typing.Callable  # the config of transformers -> that of the family
    stems: list = ()  # (part of a name, its replacement), applied in order
    # Each is (ends of names, the end of the joined tensor's name, numbers of heads of q, k and v per group; none means all of
    # each).
    joined: list = ()
    group: tuple = ()  # query heads per KV head and their dimension, for tensors that are stored KV head by KV head


def kept(config, *more):
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "rms_norm_eps", "vocab_size",
             "hidden_act", "tie_word_embeddings", "max_position_embeddings", "bos_token_id", "eos_token_id",
             "pad_token_id", *more)
    return dict({key: config[key] for key in names if key in config}, torch_dtype="bfloat16")


W_PACK = [(("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), "self_attn.W_pack")]
INTERNLM2 = [("model.embed_tokens", "model.tok_embeddings"), ("lm_head", "output"), ("input_layernorm", "attention_norm"),
             ("post_attention_layernorm", "ffn_norm"), ("self_attn.o_proj", "attention.wo"),
             ("mlp.gate_proj", "feed_forward.w1"), ("mlp.up_proj", "feed_forward.w3"),
             ("mlp.down_proj", "feed_forward.w2"), ("self_attn.", "attention.")]
INTERNLM2_JOINED = [(("attention.q_proj", "attention.k_proj", "attention.v_proj"), "attention.wqkv")]
TRANSFORMER = [("model.embed_tokens", "transformer.wte"), ("model.norm", "transformer.ln_f"),
               ("model.layers.", "transformer.h."), ("input_layernorm", "ln_1"), ("post_attention_layernorm", "ln_2")]
EXAONE = TRANSFORMER + [("self_attn.o_proj", "attn.attention.out_proj"), ("self_attn.", "attn.attention."),
                        ("mlp.gate_proj", "mlp.c_fc_0"), ("mlp.up_proj", "mlp.c_fc_1"), ("mlp.down_proj", "mlp.c_proj")]
QWEN = TRANSFORMER + [("self_attn.o_proj", "attn.c_proj"), ("self_attn.", "attn."), ("mlp.gate_proj", "mlp.w2"),
                      ("mlp.up_proj", "mlp.w1"), ("mlp.down_proj", "mlp.c_proj")]
QWEN_JOINED = [(("attn.q_proj", "attn.k_proj", "attn.v_proj"), "attn.c_attn")]
CHATGLM = [("model.embed_tokens", "transformer.embedding.word_embeddings"), ("lm_head", "transformer.output_layer"),
           ("model.norm", "transformer.encoder.final_layernorm"), ("model.layers.", "transformer.encoder.layers."),
           ("self_attn.o_proj", "self_attention.dense"), ("self_attn.", "self_attention."),
           ("mlp.gate_up_proj", "mlp.dense_h_to_4h"), ("mlp.down_proj", "mlp.dense_4h_to_h")]
CHATGLM_JOINED = [(("self_attention.q_proj", "self_attention.k_proj", "self_attention.v_proj"),
                   "self_attention.query_key_value")]

BAILING = [("model.embed_tokens", "model.word_embeddings"), ("self_attn.o_proj", "attention.dense"),
           ("self_attn.q_norm", "attention.query_layernorm"), ("self_attn.k_norm", "attention.key_layernorm"),
           ("self_attn.", "attention."), ("gate.e_score_correction_bias", "gate.expert_bias")]
BAILING_JOINED = [(("attention.q_proj", "attention.k_proj", "attention.v_proj"), "attention.query_key_value")]


def variants(common, rope):
    """name -> (config, stored dtype, options), as variants() of make_model_goldens."""
    deep = dict(num_hidden_layers=40, hidden_size=12, intermediate_size=14, num_attention_heads=6, num_key_value_heads=6)
    alike = dict(num_key_value_heads=4)
    llama3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                  original_max_position_embeddings=32)
    return {
        "baichuan": (tf.LlamaConfig(**common(**alike, head_dim=8), **rope()), "bfloat16",
                     dict(gguf="baichuan", renamed=Renaming(baichuan, joined=W_PACK))),
        # This is the second generation, whose head has rows of length 1.
        "baichuan2": (tf.LlamaConfig(**common(**alike, head_dim=8), **rope()), "bfloat16",
                      dict(unit_head=True, renamed=Renaming(lambda config: baichuan(config, z_loss_weight=0), joined=W_PACK))),
        "baichuan_alibi": (tf.LlamaConfig(**common(num_attention_heads=6, num_key_value_heads=6, hidden_size=36), **rope()),
                           "bfloat16", dict(alibi=True, renamed=Renaming(baichuan_alibi, joined=W_PACK))),
        # The number of layers tells GGUF readers that the model uses ALiBi.
        "baichuan_deep": (tf.LlamaConfig(**common(**deep), **rope()), "bfloat16",
                          dict(alibi=True, gguf="baichuan", renamed=Renaming(baichuan_alibi, joined=W_PACK), branch_scale=0.25)),
        "internlm": (tf.LlamaConfig(**common(num_key_value_heads=4, attention_bias=True), **rope()), "bfloat16",
                     dict(renamed=Renaming(internlm))),
        "internlm2": (tf.LlamaConfig(**common(num_hidden_layers=2), **rope(rope_theta=1e6)), "bfloat16",
                      dict(gguf="internlm2", renamed=Renaming(internlm2, INTERNLM2, INTERNLM2_JOINED, (2, 8)))),
        "xverse": (tf.LlamaConfig(**common(num_hidden_layers=2, num_key_value_heads=4), **rope()), "bfloat16",
                   dict(gguf="xverse", renamed=Renaming(xverse))),
        "orion": (tf.StableLmConfig(**common(num_hidden_layers=2, num_key_value_heads=4), **rope(partial_rotary_factor=1.0)), "bfloat16",
                  dict(gguf="orion", renamed=Renaming(orion))),
        "exaone": (tf.LlamaConfig(**common(num_hidden_layers=2, tie_word_embeddings=True), **rope(**llama3)), "bfloat16",
                   dict(gguf="exaone", renamed=Renaming(exaone, EXAONE))),
        "qwen": (tf.Qwen2Config(**common(num_hidden_layers=2, num_key_value_heads=4), **rope()), "bfloat16",
                 dict(gguf="qwen", max_model_len=128, renamed=Renaming(qwen, QWEN, QWEN_JOINED),
                      gguf_more={"feed_forward_length": 112})),
        "chatglm": (tf.GlmConfig(**common(head_dim=12), **rope(partial_rotary_factor=0.5, rope_theta=500000.0)), "bfloat16",
                    dict(renamed=Renaming(chatglm, CHATGLM, CHATGLM_JOINED))),
    }


class WithAlibi(torch.nn.Module):
    """A model without rotation, because all tokens have position 0, whose scores decrease with the distance."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        heads = model.config.num_attention_heads
        floor = 1 << (heads.bit_length() - 1)
        slopes = [2 ** (-8 * (i + 1) / floor) for i in range(floor)]
        slopes += [2 ** (-4 * (2 * i + 1) / floor) for i in range(heads - floor)]
        self.slopes = torch.tensor(slopes)

    def __getattr__(self, name):
        return super().__getattr__(name) if name == "model" else getattr(self.model, name)

    def forward(self, ids, use_cache):
        length = ids.shape[1]
        distance = torch.arange(length)[None, :] - torch.arange(length)[:, None]
        mask = self.__dict__["slopes"][:, None, None] * distance
        mask = mask.masked_fill(distance > 0, torch.finfo(torch.float32).min)
        return self.model(ids, attention_mask=mask[None], position_ids=torch.zeros_like(ids), use_cache=use_cache)


def normalize_head(model, dtype):
    """Normalizes the head as these models do when they are loaded: the result has the type of the weights."""
    with torch.no_grad():
        model.lm_head.weight.copy_(torch.nn.functional.normalize(model.lm_head.weight).to(dtype))


def baichuan(config, **more):
    return dict(kept(config), architectures=["BaichuanForCausalLM"], model_type="baichuan",
                model_max_length=config["max_position_embeddings"], **more)


def baichuan_alibi(config):
    config = baichuan(config)
    del config["max_position_embeddings"]
    return config


def internlm(config):
    return dict(kept(config), architectures=["InternLMForCausalLM"], model_type="internlm", bias=True,
                rotary=dict(base=10000, type="dynamic"))


def internlm2(config):
    return dict(kept(config, "num_key_value_heads"), architectures=["InternLM2ForCausalLM"], model_type="internlm2",
                bias=False, rope_theta=1000000, rope_scaling=None)


def xverse(config):
    return dict(kept(config), architectures=["XverseForCausalLM"], model_type="xverse")


def orion(config):
    return dict(kept(config), architectures=["OrionForCausalLM"], model_type="orion", num_key_value_heads=4,
                rms_norm_eps=config["layer_norm_eps"], rope_theta=10000.0, rope_scaling=None)


def exaone(config):
    renamed = kept(config, "num_key_value_heads")
    for ours, theirs in (("num_hidden_layers", "num_layers"), ("hidden_act", "activation_function"),
                         ("rms_norm_eps", "layer_norm_epsilon")):
        renamed[theirs] = renamed.pop(ours)
    scaling = dict(config["rope_parameters"])
    return dict(renamed, architectures=["ExaoneForCausalLM"], model_type="exaone", rope_theta=scaling.pop("rope_theta"),
                rope_scaling=scaling)


def qwen(config):
    renamed = kept(config)
    renamed["layer_norm_epsilon"] = renamed.pop("rms_norm_eps")
    del renamed["hidden_act"]
    return dict(renamed, architectures=["QWenLMHeadModel"], model_type="qwen", intermediate_size=112, seq_length=128,
                kv_channels=8, no_bias=True, rotary_emb_base=10000, rotary_pct=1.0, scale_attn_weights=True,
                use_dynamic_ntk=True, use_logn_attn=True)


def chatglm(config):
    return dict(architectures=["ChatGLMModel"], model_type="chatglm", add_bias_linear=False, add_qkv_bias=True,
                apply_residual_connection_post_layernorm=False, ffn_hidden_size=config["intermediate_size"],
                hidden_size=config["hidden_size"], kv_channels=12, layernorm_epsilon=config["rms_norm_eps"],
                multi_query_attention=True, multi_query_group_num=2, num_attention_heads=4, num_layers=3,
                original_rope=True, padded_vocab_size=config["vocab_size"], post_layer_norm=True, rmsnorm=True,
                rope_ratio=50, seq_length=256, tie_word_embeddings=False, torch_dtype="bfloat16")


def by_kv_heads(parts, group):
    """Reorders rows of q, k and v, so that those of a KV head are adjacent."""
    queries, dim = group
    heads = [part.reshape(-1, rows * dim, *part.shape[1:]) for part, rows in zip(parts, (queries, 1, 1))]
    return torch.cat(heads, dim=1).reshape(-1, *parts[0].shape[1:])


def separate_experts(tensors):
    """Splits experts that transformers stores together, as the checkpoints of these families name them."""
    for name in [name for name in tensors if name.endswith((".experts.gate_up_proj", ".experts.down_proj"))]:
        stem, part = name.rsplit(".", 1)
        for expert, matrix in enumerate(tensors.pop(name)):
            parts = dict(zip(("gate_proj", "up_proj"), matrix.chunk(2))) if part == "gate_up_proj" else {part: matrix}
            for key, value in parts.items():
                tensors[f"{stem}.{expert}.{key}.weight"] = value.contiguous()


def rename(folder, renaming):
    """Rewrites a folder of transformers in the form of the family."""
    path = folder / "config.json"
    stated = json.loads(path.read_text())
    quantization = {key: stated[key] for key in ("quantization_config",) if key in stated}
    path.write_text(json.dumps(dict(renaming.config(stated), **quantization), indent=1))
    path = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    separate_experts(tensors)
    for old, new in renaming.stems:
        tensors = {name.replace(old, new): value for name, value in tensors.items()}
    for ends, joined in renaming.joined:
        for name in [name for name in tensors if f"{ends[0]}." in name]:
            parts = [tensors.pop(name.replace(ends[0], end)) for end in ends]
            tensors[name.replace(ends[0], joined)] = by_kv_heads(parts, renaming.group) if renaming.group else torch.cat(parts)
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
