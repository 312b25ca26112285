#!/usr/bin/env python3
"""Compares how many tokens the KV cache of published servers holds with what the simulator plans for them.

    bench/roofline/memory_runs.py [--binary FILE]

memory_runs.json holds what servers logged, with the source of each row. The error is of tokens; without --engine
(Quire's own plan) it is shown beside, since that is what a user without a preset gets.
"""
import argparse
import json
import sys
import tempfile
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent))
from published_runs import BINARY, simulate  # noqa: E402


def planned_tokens(binary, row, model, engine):
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.json"
        config.write_text(json.dumps(model), encoding="utf-8")
        flags = [config, "--hardware", row["hardware"], "--tp", row["tp"], "--num-requests", 1, "--input-len", 8,
                 "--output-len", 2, "--max-num-batched-tokens", row["tokens"], "--max-num-seqs", row["seqs"],
                 "--memory-utilization", row["utilization"]]
        if engine:
            flags += ["--engine", engine]
        return simulate(binary, folder, flags)["fleet"]["kv_tokens"]


def rows_of():
    table = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return [(row, table["models"][row["model"]]) for row in table["rows"]]


def error_percent(binary, row, model, engine):
    return 100 * (planned_tokens(binary, row, model, engine) / row["kv_tokens"] - 1)


def errors(binary):
    return [error_percent(binary, row, model, row["engine"]) for row, model in rows_of()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=BINARY)
    args = parser.parse_args()
    print("| server, model, devices | tokens logged | error | error without --engine |")
    print("|---|---|---|---|")
    all_errors = []
    for row, model in rows_of():
        all_errors.append(error_percent(args.binary, row, model, row["engine"]))
        own = error_percent(args.binary, row, model, None)
        print(f"| {row['server']}, {row['model']}, {row['hardware']} x {row['tp']} | {row['kv_tokens']} | "
              f"{all_errors[-1]:+.1f} % | {own:+.1f} % |")
    print(f"\nmedian error {median(map(abs, all_errors)):.1f} %, {len(all_errors)} rows")


if __name__ == "__main__":
    main()
