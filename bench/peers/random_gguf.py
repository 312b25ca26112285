"""Writes a GGUF file of a named shape with random weights, so that two engines can be timed on the same file.

    random_gguf.write(path, SHAPES["llama-3.2-1b"], "q8_0")
"""
import dataclasses
import os
import sys

import gguf
import numpy as np


@dataclasses.dataclass(frozen=True)
class Shape:
    architecture: str  # as GGUF names it: llama, qwen2
    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    rope_base: float


SHAPES = {
    "llama-3.2-1b": Shape("llama", 16, 2048, 8192, 32, 8, 64, 128256, 500000.0),
    "qwen2.5-0.5b": Shape("qwen2", 24, 896, 4864, 14, 2, 64, 151936, 1000000.0),
    "tiny": Shape("llama", 2, 256, 512, 4, 2, 64, 1024, 10000.0),
}
TYPES = {
    "bf16": gguf.GGMLQuantizationType.BF16,
    "q8_0": gguf.GGMLQuantizationType.Q8_0,
    "q4_0": gguf.GGMLQuantizationType.Q4_0,
}


def random_matrix(rng, rows, columns, kind):
    """Returns the bytes of a [rows, columns] matrix, about N(0, 0.02), as [rows, bytes of a row]."""
    if kind == "bf16":
        values = rng.standard_normal((rows, columns), dtype=np.float32) * 0.02
        return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    if kind == "q8_0":
        blocks, codes, scale = columns // 32, 32, 0.02 / 40
    else:
        blocks, codes, scale = columns // 32, 16, 0.02 / 4
    out = np.empty((rows, blocks, 2 + codes), np.uint8)
    out[:, :, 2:] = rng.integers(0, 256, (rows, blocks, codes), dtype=np.uint8)
    out[:, :, :2] = np.array([scale], np.float16).view(np.uint8)
    return out.reshape(rows, -1)


def add_metadata(writer, shape):
    writer.add_context_length(8192)
    writer.add_embedding_length(shape.hidden)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.ffn)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_rope_dimension_count(shape.head_dim)
    writer.add_rope_freq_base(shape.rope_base)
    writer.add_layer_norm_rms_eps(1e-5)
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    kinds += [gguf.TokenType.BYTE] * 256
    while len(tokens) < shape.vocab:
        tokens.append(f"\u2581w{len(tokens)}")
        kinds.append(gguf.TokenType.NORMAL)
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(i) for i in range(len(tokens))])
    writer.add_token_types([int(kind) for kind in kinds])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)


def write(path, shape, kind):
    """Leaves `path` alone when it exists."""
    if os.path.exists(path):
        return
    print(f"making {path}", file=sys.stderr, flush=True)
    rng = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path + ".part", shape.architecture)
    add_metadata(writer, shape)

    def matrix(name, rows, columns):
        writer.add_tensor(name, random_matrix(rng, rows, columns, kind), raw_dtype=TYPES[kind])

    def vector(name, size, value):
        writer.add_tensor(name, np.full(size, value, np.float32))

    matrix("token_embd.weight", shape.vocab, shape.hidden)
    vector("output_norm.weight", shape.hidden, 1.0)
    q_rows, kv_rows = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    for i in range(shape.layers):
        prefix = f"blk.{i}."
        vector(prefix + "attn_norm.weight", shape.hidden, 1.0)
        matrix(prefix + "attn_q.weight", q_rows, shape.hidden)
        matrix(prefix + "attn_k.weight", kv_rows, shape.hidden)
        matrix(prefix + "attn_v.weight", kv_rows, shape.hidden)
        if shape.architecture == "qwen2":
            vector(prefix + "attn_q.bias", q_rows, 0.01)
            vector(prefix + "attn_k.bias", kv_rows, 0.01)
            vector(prefix + "attn_v.bias", kv_rows, 0.01)
        matrix(prefix + "attn_output.weight", shape.hidden, q_rows)
        vector(prefix + "ffn_norm.weight", shape.hidden, 1.0)
        matrix(prefix + "ffn_gate.weight", shape.ffn, shape.hidden)
        matrix(prefix + "ffn_up.weight", shape.ffn, shape.hidden)
        matrix(prefix + "ffn_down.weight", shape.hidden, shape.ffn)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.replace(path + ".part", path)
