#!/usr/bin/env python3
"""Measures the time from the start of `quire serve` to ready and to the first token, and the memory that it takes.

    bench/serving/start.py [--starts 3] [--folder build/bench/1b | --built-in] [-- serve flags…]

A checkpoint of the Llama-3.2-1B shape with random bfloat16 weights is written to the folder first (2.5 GB). Then the
server is started with an empty --cache-dir, which packs the weights and keeps them, and again, which maps them. With --built-in the model that is part of the program is started instead.
"""
import argparse
import json
import os
import random
import shutil
import struct
import time
from array import array

from server import BINARY, ROOT, Server

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192,
    "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256,
    "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": True,
    "torch_dtype": "bfloat16", "hidden_act": "silu", "bos_token_id": 1, "eos_token_id": 2,
}


def tensors():
    """Yields (name, shape) in the order of the file."""
    hidden, ffn, kv = CONFIG["hidden_size"], CONFIG["intermediate_size"], CONFIG["num_key_value_heads"] * CONFIG["head_dim"]
    yield "model.embed_tokens.weight", (CONFIG["vocab_size"], hidden)
    for i in range(CONFIG["num_hidden_layers"]):
        for name, shape in (("self_attn.q_proj", (hidden, hidden)), ("self_attn.k_proj", (kv, hidden)),
                            ("self_attn.v_proj", (kv, hidden)), ("self_attn.o_proj", (hidden, hidden)),
                            ("mlp.gate_proj", (ffn, hidden)), ("mlp.up_proj", (ffn, hidden)),
                            ("mlp.down_proj", (hidden, ffn)), ("input_layernorm", (hidden,)),
                            ("post_attention_layernorm", (hidden,))):
            yield f"model.layers.{i}.{name}.weight", shape
    yield "model.norm.weight", (hidden,)


def bfloat16_noise(count):
    """Returns the bytes of random numbers with a distribution of about N(0, 0.02)."""
    rng = random.Random(0)
    return array("H", (struct.unpack("<I", struct.pack("<f", rng.gauss(0, 0.02)))[0] >> 16 for _ in range(count))).tobytes()


def write_checkpoint(folder):
    path = os.path.join(folder, "model.safetensors")
    if os.path.exists(path):
        return
    os.makedirs(folder, exist_ok=True)
    header, offset = {}, 0
    for name, shape in tensors():
        size = 2
        for extent in shape:
            size *= extent
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    noise = bfloat16_noise(1 << 20)  # is written repeatedly, because the time to pack depends only on the size
    with open(path + ".part", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for begin in range(0, offset, len(noise)):
            file.write(noise[:min(len(noise), offset - begin)])
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(CONFIG, file)
    os.replace(path + ".part", path)


def start(binary, what, flags):
    with Server(binary, flags) as server:
        server.complete([1], 1)
        first_token_s = time.perf_counter() - server.begin
        print(f"{what:14} ready after {server.ready_s:.2f} s, first token after {first_token_s:.2f} s, resident memory "
              f"{server.resident_mib():.0f} MiB", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=BINARY)
    parser.add_argument("--folder", default=os.path.join(ROOT, "build/bench/1b"))
    parser.add_argument("--built-in", action="store_true", help="the built-in model instead of a checkpoint")
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("serve_flags", nargs="*")
    args = parser.parse_args()
    if args.built_in:
        for _ in range(args.starts):
            start(args.binary, "built-in", args.serve_flags)
        return
    write_checkpoint(args.folder)
    cache = os.path.join(args.folder, "cache")
    shutil.rmtree(cache, ignore_errors=True)
    flags = [args.folder, "--max-model-len", "4096", "--kv-cache-memory", "1GiB", *args.serve_flags]
    for _ in range(args.starts):
        start(args.binary, "no cache", flags)
    start(args.binary, "fills a cache", [*flags, "--cache-dir", cache])
    for _ in range(args.starts):
        start(args.binary, "from the cache", [*flags, "--cache-dir", cache])


main()
