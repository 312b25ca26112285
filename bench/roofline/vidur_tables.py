"""Turns operator profiles of Vidur into the tables that `quire roofline calibrate` reads.

usage: vidur_tables.py OUT_DIR FILE…     (mlp.csv.gz or all_reduce.csv.gz)

Writes gemm.csv (the products of mlp.csv: fused QKV, output, gate and up, down; medians) and all_reduce.csv (float16
elements). How far a description is from them, without fitting:

    quire roofline calibrate OUT_DIR/gemm.csv OUT_DIR/all_reduce.csv --hardware h100-sxm --judge-only
"""
import csv
import gzip
import sys
from pathlib import Path


def rows(path):
    with gzip.open(path, "rt") as file:
        yield from csv.DictReader(file)


def products(row):
    """Returns (profile column, n, k) of one layer on one of `tp` devices."""
    heads, kv_heads, hidden, inner, tp = (int(row[key]) for key in (
        "n_head", "n_kv_head", "n_embd", "n_expanded_embd", "num_tensor_parallel_workers"))
    dim = hidden // heads
    matrices = 2 if row["use_gated_mlp"] == "True" else 1
    yield "attn_pre_proj", (heads + 2 * kv_heads) * dim // tp, hidden
    yield "attn_post_proj", hidden, heads * dim // tp
    yield "mlp_up_proj", matrices * inner // tp, hidden
    yield "mlp_down_proj", hidden, inner // tp


def write(path, header, lines):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(lines)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    gemm, reduce = [], []
    for path in sys.argv[2:]:
        for row in rows(path):
            if "size" in row:
                reduce.append(("all_reduce", "float16", row["num_workers"], int(row["size"]) // 2,
                               row["time_stats.all_reduce.median"]))
                continue
            for column, n, k in products(row):
                gemm.append(("float16", row["num_tokens"], n, k, row[f"time_stats.{column}.median"]))
    if gemm:
        write(out / "gemm.csv", ("gemm_dtype", "m", "n", "k", "latency"), gemm)
    if reduce:
        write(out / "all_reduce.csv", ("op_name", "allreduce_dtype", "num_gpus", "message_size", "latency"), reduce)


if __name__ == "__main__":
    main()
