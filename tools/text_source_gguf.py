"""GGUF files of T5 and its kin, as the converters of llama.cpp write them, for tools/make_*_goldens.py."""

import re

import numpy as np
import torch

import gguf_blocks

# The part of a name behind "block.N.layer.M." in transformers' state. M distinguishes attention to the source from attention to
# the text.
NAMES = {
    "SelfAttention.q": "attn_q", "SelfAttention.k": "attn_k", "SelfAttention.v": "attn_v", "SelfAttention.o": "attn_o",
    "SelfAttention.relative_attention_bias": "attn_rel_b", "EncDecAttention.q": "cross_attn_q",
    "EncDecAttention.k": "cross_attn_k", "EncDecAttention.v": "cross_attn_v", "EncDecAttention.o": "cross_attn_o",
    "DenseReluDense.wi": "ffn_up", "DenseReluDense.wi_0": "ffn_gate", "DenseReluDense.wi_1": "ffn_up",
    "DenseReluDense.wo": "ffn_down",
}
NORMS = {"encoder": ["attn_norm", "ffn_norm"], "decoder": ["attn_norm", "cross_attn_norm", "ffn_norm"]}


def gguf_name(name):
    """Returns the GGUF name of a tensor, or None for the second copy of the embedding."""
    plain = {"shared.weight": "token_embd.weight", "lm_head.weight": "output.weight"}
    if name in plain or "embed_tokens" in name:
        return plain.get(name)
    half = name.split(".")[0]
    short = half[:3]
    if name == f"{half}.final_layer_norm.weight":
        return f"{short}.output_norm.weight"
    block, part, rest = re.fullmatch(half + r"\.block\.(\d+)\.layer\.(\d)\.(.*)\.weight", name).groups()
    return f"{short}.blk.{block}.{NORMS[half][int(part)] if rest == 'layer_norm' else NAMES[rest]}.weight"


@torch.no_grad()
def round_matrices(model):
    """Rounds the values in place to those of F16."""
    for tensor in model.parameters():
        if tensor.ndim > 1:
            tensor.copy_(tensor.half())


def write_gguf(path, model):
    config = model.config
    has_decoder = any(name.startswith("decoder.block") for name, _ in model.named_parameters())
    arch = "t5" if has_decoder else "t5encoder"
    sizes = {"context_length": config.n_positions if hasattr(config, "n_positions") else 512,
             "embedding_length": config.d_model, "feed_forward_length": config.d_ff, "block_count": config.num_layers,
             "attention.head_count": config.num_heads, "attention.key_length": config.d_kv,
             "attention.value_length": config.d_kv, "attention.layer_norm_epsilon": config.layer_norm_epsilon,
             "attention.layer_norm_rms_epsilon": config.layer_norm_epsilon,
             "attention.relative_buckets_count": config.relative_attention_num_buckets}
    if has_decoder:
        sizes.update(decoder_block_count=config.num_decoder_layers, decoder_start_token_id=config.decoder_start_token_id)
    meta = {"general.architecture": arch, **{f"{arch}.{key}": value for key, value in sizes.items()}}
    tensors = {}
    for name, value in model.named_parameters():
        if (new := gguf_name(name)) is None:
            continue
        value = value.detach().float().numpy()
        half = value.astype(np.float16)
        is_half = value.ndim > 1 and (half == value).all()
        stored = np.ascontiguousarray(half if is_half else value)
        tensors[new] = ("F16" if is_half else "F32", stored.view(np.uint8) if value.ndim > 1 else stored)
    gguf_blocks.write_gguf(path, meta, tensors)
