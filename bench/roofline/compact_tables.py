#!/usr/bin/env python3
"""Makes the operator tables that are built into quire from those of aiconfigurator (Apache-2.0).

    bench/roofline/compact_tables.py FOLDER OUT      (FOLDER: perf/aiconfigurator/h100_sxm, OUT: assets/operators/h100-sxm)

Keeps the columns and types that `quire roofline` reads, four digits of each time, and in an order in which they
compress well. Of products, whose sizes are a dense grid, every second m of each weight matrix is kept.
"""
import csv
import gzip
import sys
from pathlib import Path

TABLES = {
    "gemm_perf": ["gemm_dtype", "n", "k", "m"],
    "context_attention_perf": ["kv_cache_dtype", "window_size", "head_dim", "num_heads", "num_key_value_heads", "step",
                               "batch_size", "isl"],
    "generation_attention_perf": ["kv_cache_dtype", "window_size", "head_dim", "num_heads", "num_key_value_heads", "isl",
                                  "batch_size", "step"],
    "moe_perf": ["moe_dtype", "distribution", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size",
                 "moe_ep_size", "num_tokens"],
}
THINNED = {"gemm_perf"}


def key(row, columns):
    return tuple(int(row[c]) if row[c].lstrip("-").isdigit() else row[c] for c in columns)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, out = Path(sys.argv[1]), Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    for name, columns in TABLES.items():
        with gzip.open(source / f"{name}.csv.gz", "rt") as file:
            rows = sorted(csv.DictReader(file), key=lambda row: key(row, columns))
        kept, last, count = [], None, 0
        for row in rows:
            count = count + 1 if key(row, columns[:-1]) == last else 0
            last = key(row, columns[:-1])
            if name not in THINNED or count % 2 == 0:
                kept.append([row[c] for c in columns] + [f"{float(row['latency']):.4g}"])
        text = "\n".join(",".join(line) for line in [columns + ["latency"], *kept]) + "\n"
        with open(out / f"{name}.csv.gz", "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
            file.write(text.encode())
        print(f"{name}: {len(kept)} of {len(rows)} rows, {(out / f'{name}.csv.gz').stat().st_size} bytes")


if __name__ == "__main__":
    main()
