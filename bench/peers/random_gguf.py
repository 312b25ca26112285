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
    architecture: str  # as GGUF names it: llama, qwen2, qwen3moe, gpt-oss
    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    rope_base: float
    experts: int = 0  # if > 0, `ffn` is the hidden size of each expert
    experts_per_token: int = 0
    window: int = 0
    is_tied: bool = True


SHAPES = {
    "llama-3.2-1b": Shape("llama", 16, 2048, 8192, 32, 8, 64, 128256, 500000.0),
    "qwen2.5-0.5b": Shape("qwen2", 24, 896, 4864, 14, 2, 64, 151936, 1000000.0),
    # Layers of Qwen3-30B-A3B and of gpt-oss-20b. The numbers of layers are those of `quire bench latency --shape` under the
    # same names.
    "qwen3-30b-a3b-4l": Shape("qwen3moe", 4, 2048, 768, 32, 4, 128, 151936, 1000000.0, experts=128,
                              experts_per_token=8, is_tied=False),
    "gpt-oss-20b-2l": Shape("gpt-oss", 2, 2880, 2880, 64, 8, 64, 201088, 150000.0, experts=32, experts_per_token=4,
                            window=128, is_tied=False),
    "tiny": Shape("llama", 2, 256, 512, 4, 2, 64, 1024, 10000.0),
    "tiny-moe": Shape("qwen3moe", 2, 256, 96, 4, 2, 64, 1024, 10000.0, experts=8, experts_per_token=2, is_tied=False),
}
TYPES = {
    "bf16": gguf.GGMLQuantizationType.BF16,
    "q8_0": gguf.GGMLQuantizationType.Q8_0,
    "q4_0": gguf.GGMLQuantizationType.Q4_0,
    # The types of the published gpt-oss: experts in MXFP4, everything else in Q8_0.
    "mxfp4": gguf.GGMLQuantizationType.MXFP4,
}


def random_matrix(rng, rows, columns, kind):
    """Returns the bytes of a [rows, columns] matrix, about N(0, 0.02), as [rows, bytes of a row]."""
    if kind == "mxfp4":
        out = rng.integers(0, 256, (rows, columns // 32, 17), dtype=np.uint8)
        out[:, :, 0] = 127 - 7  # 2^-7 times values of up to 6
        return out.reshape(rows, -1)
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
    if shape.experts > 0:
        writer.add_expert_count(shape.experts)
        writer.add_expert_used_count(shape.experts_per_token)
        writer.add_expert_feed_forward_length(shape.ffn)
    if shape.window > 0:
        writer.add_sliding_window(shape.window)
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


class TensorWriter:
    """Adds tensors with random or constant values."""

    def __init__(self, writer, kind):
        self.writer = writer
        self.kind = kind
        self.rng = np.random.default_rng(0)

    def matrix(self, name, rows, columns):
        kind = "q8_0" if self.kind == "mxfp4" else self.kind
        self.writer.add_tensor(name, random_matrix(self.rng, rows, columns, kind), raw_dtype=TYPES[kind])

    def experts(self, name, count, rows, columns):
        values = random_matrix(self.rng, count * rows, columns, self.kind)
        self.writer.add_tensor(name, values.reshape(count, rows, -1), raw_dtype=TYPES[self.kind])

    def vector(self, name, size, value):
        self.writer.add_tensor(name, np.full(size, value, np.float32))

    def floats(self, name, *shape):
        self.writer.add_tensor(name, self.rng.standard_normal(shape, dtype=np.float32) * 0.02)


def add_attention(tensors, shape, prefix):
    q_rows, kv_rows = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    tensors.vector(prefix + "attn_norm.weight", shape.hidden, 1.0)
    tensors.matrix(prefix + "attn_q.weight", q_rows, shape.hidden)
    tensors.matrix(prefix + "attn_k.weight", kv_rows, shape.hidden)
    tensors.matrix(prefix + "attn_v.weight", kv_rows, shape.hidden)
    tensors.matrix(prefix + "attn_output.weight", shape.hidden, q_rows)
    if shape.architecture in ("qwen2", "gpt-oss"):
        tensors.vector(prefix + "attn_q.bias", q_rows, 0.01)
        tensors.vector(prefix + "attn_k.bias", kv_rows, 0.01)
        tensors.vector(prefix + "attn_v.bias", kv_rows, 0.01)
    if shape.architecture == "gpt-oss":
        tensors.vector(prefix + "attn_output.bias", shape.hidden, 0.01)
        tensors.vector(prefix + "attn_sinks.weight", shape.heads, 0.5)
    if shape.architecture == "qwen3moe":
        tensors.vector(prefix + "attn_q_norm.weight", shape.head_dim, 1.0)
        tensors.vector(prefix + "attn_k_norm.weight", shape.head_dim, 1.0)


def add_ffn(tensors, shape, prefix):
    norm = "post_attention_norm" if shape.architecture == "gpt-oss" else "ffn_norm"
    tensors.vector(f"{prefix}{norm}.weight", shape.hidden, 1.0)
    sides = {"gate": (shape.ffn, shape.hidden), "up": (shape.ffn, shape.hidden), "down": (shape.hidden, shape.ffn)}
    if shape.experts == 0:
        for side, (rows, columns) in sides.items():
            tensors.matrix(f"{prefix}ffn_{side}.weight", rows, columns)
        return
    tensors.floats(prefix + "ffn_gate_inp.weight", shape.experts, shape.hidden)
    for side, (rows, columns) in sides.items():
        tensors.experts(f"{prefix}ffn_{side}_exps.weight", shape.experts, rows, columns)
        if shape.architecture == "gpt-oss":
            tensors.floats(f"{prefix}ffn_{side}_exps.bias", shape.experts, rows)
    if shape.architecture == "gpt-oss":
        tensors.floats(prefix + "ffn_gate_inp.bias", shape.experts)


def write(path, shape, kind):
    """Writes the file, unless `path` exists."""
    if os.path.exists(path):
        return
    print(f"making {path}", file=sys.stderr, flush=True)
    writer = gguf.GGUFWriter(path + ".part", shape.architecture)
    add_metadata(writer, shape)
    tensors = TensorWriter(writer, kind)
    tensors.matrix("token_embd.weight", shape.vocab, shape.hidden)
    tensors.vector("output_norm.weight", shape.hidden, 1.0)
    if not shape.is_tied:
        tensors.matrix("output.weight", shape.vocab, shape.hidden)
    for i in range(shape.layers):
        add_attention(tensors, shape, f"blk.{i}.")
        add_ffn(tensors, shape, f"blk.{i}.")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.replace(path + ".part", path)
