"""Tiny models of families that transformers does not have, computed as a family that it has and written as theirs, for
tools/make_model_goldens.py: Baichuan."""

import json

import safetensors.torch
import torch
import transformers as tf


def variants(common, rope):
    """name -> (config, stored dtype, options), as variants() of make_model_goldens."""
    deep = dict(num_hidden_layers=40, hidden_size=12, intermediate_size=14, num_attention_heads=6, num_key_value_heads=6)
    alike = dict(num_key_value_heads=4)
    return {
        "baichuan": (tf.LlamaConfig(**common(**alike, head_dim=8), **rope()), "bfloat16",
                     dict(gguf="baichuan", renamed=baichuan)),
        # The second generation, with a head of rows of length 1.
        "baichuan2": (tf.LlamaConfig(**common(**alike, head_dim=8), **rope()), "bfloat16",
                      dict(unit_head=True, renamed=lambda config: baichuan(config, z_loss_weight=0))),
        "baichuan_alibi": (tf.LlamaConfig(**common(num_attention_heads=6, num_key_value_heads=6, hidden_size=36), **rope()),
                           "bfloat16", dict(alibi=True, renamed=baichuan_alibi)),
        # As many layers as GGUF files know ALiBi by.
        "baichuan_deep": (tf.LlamaConfig(**common(**deep), **rope()), "bfloat16",
                          dict(alibi=True, gguf="baichuan", renamed=baichuan_alibi, branch_scale=0.25)),
    }


class WithAlibi(torch.nn.Module):
    """A model that rotates nothing, as all tokens stand at position 0, and whose scores fall with the distance."""

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
    """As the models do when they are loaded: the result is of the weights' own type."""
    with torch.no_grad():
        model.lm_head.weight.copy_(torch.nn.functional.normalize(model.lm_head.weight).to(dtype))


def baichuan(config, **more):
    kept = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "rms_norm_eps", "vocab_size",
            "hidden_act", "tie_word_embeddings", "max_position_embeddings", "bos_token_id", "eos_token_id", "pad_token_id")
    return dict({key: config[key] for key in kept}, architectures=["BaichuanForCausalLM"], model_type="baichuan",
                torch_dtype="bfloat16", model_max_length=config["max_position_embeddings"], **more)


def baichuan_alibi(config):
    config = baichuan(config)
    del config["max_position_embeddings"]
    return config


def rename(folder, renamed):
    """The folder that transformers has written, as the family would have been."""
    path = folder / "config.json"
    path.write_text(json.dumps(renamed(json.loads(path.read_text())), indent=1))
    path = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    for name in [name for name in tensors if name.endswith("self_attn.q_proj.weight")]:
        parts = [tensors.pop(name.replace("q_proj", part)) for part in ("q_proj", "k_proj", "v_proj")]
        tensors[name.replace("q_proj", "W_pack")] = torch.cat(parts)
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
