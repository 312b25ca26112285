#!/usr/bin/env python3
"""Writes a LoRA adapter of random numbers, as PEFT would save it, for a model of Llama's module names: to try adapters, and to
measure what they cost.

    tools/make_random_adapter.py MODEL/config.json OUT --rank 16 --seed 1
    quire bench latency --shape MODEL/config.json --lora OUT

Needs nothing but Python.
"""
import argparse
import array
import json
import os
import random
import struct


def linears(config):
    """Yields (module, inputs, outputs) of every linear of every layer."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    heads = config["num_attention_heads"]
    size = config.get("head_dim") or hidden // heads
    queries, keys = heads * size, (config.get("num_key_value_heads") or heads) * size
    parts = (("self_attn.q_proj", hidden, queries), ("self_attn.k_proj", hidden, keys), ("self_attn.v_proj", hidden, keys),
             ("self_attn.o_proj", queries, hidden), ("mlp.gate_proj", hidden, inner), ("mlp.up_proj", hidden, inner),
             ("mlp.down_proj", inner, hidden))
    for layer in range(config["num_hidden_layers"]):
        for name, inputs, outputs in parts:
            yield f"model.layers.{layer}.{name}", inputs, outputs


def write_adapter(config, folder, rank=8, seed=1, scale=0.05):
    rng = random.Random(seed)
    pool = array.array("f", (rng.uniform(-scale, scale) for _ in range(1 << 16)))  # read from random offsets, which is fast enough
    header, end = {}, 0
    for module, inputs, outputs in linears(config):
        for part, shape in (("A", [rank, inputs]), ("B", [outputs, rank])):
            size = 4 * shape[0] * shape[1]
            header[f"base_model.model.{module}.lora_{part}.weight"] = {
                "dtype": "F32", "shape": shape, "data_offsets": [end, end + size]}
            end += size
    text = json.dumps(header).encode()
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "adapter_config.json"), "w") as file:
        json.dump({"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank}, file)
    with open(os.path.join(folder, "adapter_model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        left = end // 4
        while left > 0:
            start = rng.randrange(len(pool) // 2)
            piece = pool[start:start + min(left, len(pool) // 2)]
            file.write(piece.tobytes())
            left -= len(piece)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", help="config.json of the model")
    parser.add_argument("folder", help="where the adapter goes")
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=0.05, help="numbers are drawn from [-SCALE, SCALE]")
    args = parser.parse_args()
    with open(args.config) as file:
        write_adapter(json.load(file), args.folder, args.rank, args.seed, args.scale)


if __name__ == "__main__":
    main()
