"""Turns an operator profile of LLMServingSim into the tables that `quire roofline calibrate` reads.

usage: llmservingsim_tables.py PROFILE_DIR OUT_DIR [--hidden 4096 --heads 32 --kv-heads 8 --head-dim 128
                               --intermediate 14336 --vocab 128256]

PROFILE_DIR holds dense.csv.gz, per_sequence.csv.gz and attention.csv.gz of one tensor-parallel degree; the
dimensions are those of one rank. Writes gemm.csv, prefill.csv, decode.csv (one kind of work in a launch) and
mixed.csv (prompt chunk and decodes in one launch, with the times of both parts alone where they were measured).
"""

import argparse
import csv
import gzip
from pathlib import Path


def rows(path):
    with gzip.open(path, "rt") as file:
        yield from csv.DictReader(file)


def write(path, header, lines):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(lines)


def gemm_lines(profile, a):
    shapes = {
        "qkv_proj": ((a.heads + 2 * a.kv_heads) * a.head_dim, a.hidden),
        "o_proj": (a.hidden, a.heads * a.head_dim),
        "gate_up_proj": (2 * a.intermediate, a.hidden),
        "down_proj": (a.hidden, a.intermediate),
    }
    for row in rows(profile / "dense.csv.gz"):
        if row["layer"] in shapes:
            n, k = shapes[row["layer"]]
            yield "bfloat16", row["tokens"], n, k, float(row["time_us"]) / 1e3
    for row in rows(profile / "per_sequence.csv.gz"):
        if row["layer"] == "lm_head":
            yield "bfloat16", row["sequences"], a.vocab, a.hidden, float(row["time_us"]) / 1e3


def attention(profile, a):
    prefill, decode, mixed = [], [], []
    heads = (a.heads, a.kv_heads, a.head_dim, "bfloat16")
    for row in rows(profile / "attention.csv.gz"):
        chunk, kv_prefill, n, kv = (int(row[k]) for k in ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode"))
        us = float(row["time_us"])
        if n == 0 and chunk > 1:
            prefill.append((1, chunk, *heads, kv_prefill, us / 1e3))
        elif chunk == 0 and n > 0:
            decode.append((n, 1, *heads, kv - 1, us / 1e3))  # kv counts the new token
        elif chunk > 1 and n > 0:
            mixed.append((chunk, kv_prefill, n, kv, us))
    return prefill, decode, mixed


def with_parts(prefill, decode, mixed, heads):
    alone_prefill = {(r[1], r[6]): r[7] * 1e3 for r in prefill}
    alone_decode = {(r[0], r[6] + 1): r[7] * 1e3 for r in decode}
    for chunk, kv_prefill, n, kv, us in mixed:
        p, d = alone_prefill.get((chunk, kv_prefill)), alone_decode.get((n, kv))
        if p and d:
            yield chunk, kv_prefill, n, kv, us, p, d, *heads


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("profile", type=Path)
    parser.add_argument("out", type=Path)
    for name, value in (("hidden", 4096), ("heads", 32), ("kv-heads", 8), ("head-dim", 128), ("intermediate", 14336),
                        ("vocab", 128256)):
        parser.add_argument("--" + name, type=int, default=value)
    a = parser.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    write(a.out / "gemm.csv", ("gemm_dtype", "m", "n", "k", "latency"), gemm_lines(a.profile, a))
    prefill, decode, mixed = attention(a.profile, a)
    header = ("batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "kv_cache_dtype", "step", "latency")
    write(a.out / "prefill.csv", header, prefill)
    write(a.out / "decode.csv", header, decode)
    heads = (a.heads, a.kv_heads, a.head_dim, "bfloat16")
    write(a.out / "mixed.csv",
          ("chunk", "kv_prefill", "n_decode", "kv_decode", "us", "prefill_us", "decode_us", *header[2:6]),
          with_parts(prefill, decode, mixed, heads))


if __name__ == "__main__":
    main()
