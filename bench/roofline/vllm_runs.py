#!/usr/bin/env python3
"""Predicts published runs of vLLM from their model, device, load and limits, and prints the errors.

    bench/roofline/vllm_runs.py [--binary FILE] [--flags "…"] [--split fit|test] [--hardware-folder FOLDER] [--csv FILE]

vllm_runs.json holds one row per load stage of a run, with its source: what was measured, and where it was looked up
what BLIS's trained model predicts. TPOT is (mean E2E - mean TTFT) / (output tokens - 1), from the means of the stage:
the client of these runs counts the pieces of its stream, not tokens. Where the median TTFT was published it is
compared, else the mean. Constants may be fitted to rows of the split `fit` only.
"""
import argparse
import csv
import json
import sys
import tempfile
from pathlib import Path
from statistics import mean

sys.path.insert(0, str(Path(__file__).resolve().parent))
from published_runs import BINARY, simulate  # noqa: E402

METRICS = ["tpot", "e2e", "ttft"]


def load(path):
    table = json.loads(path.read_text(encoding="utf-8"))
    table["rows"] = [dict(zip(table["columns"], row)) for row in table["rows"]]
    return table


def flags_of(table, row, folder, hardware_folder):
    model = Path(folder) / "config.json"
    model.write_text(json.dumps(table["models"][row["model"]]), encoding="utf-8")
    load_of = table["workloads"][row["workload"]]
    rate, num_requests = load_of["stages"][row["stage"]]
    limits = {**table["limits"], **table["limits_of_run"].get(row["run"], {})}
    hardware = hardware_folder / f"{row['hardware']}.json" if hardware_folder else row["hardware"]
    flags = [model, "--hardware", hardware, "--tp", row["tp"], "--rate", rate, "--num-requests", num_requests]
    for name in ["num_prefixes", "num_prompts", "prefix_len", "input_len", "output_len"]:
        flags += ["--" + name.replace("_", "-"), load_of[name]]
    for name, value in limits.items():
        flags += ["--" + name.replace("_", "-"), value]
    return flags


def measured(table, row):
    steps = table["workloads"][row["workload"]]["output_len"] - 1
    return {"tpot": (row["e2e_mean_ms"] - row["ttft_mean_ms"]) / steps, "e2e": row["e2e_mean_ms"],
            "ttft": row["ttft_p50_ms"] or row["ttft_mean_ms"]}


def predicted(figures, row):
    ttft = "median_ttft_ms" if row["ttft_p50_ms"] else "mean_ttft_ms"
    return {"tpot": figures["mean_tpot_ms"], "e2e": figures["mean_e2el_ms"], "ttft": figures[ttft]}


def summary(name, errors):
    cells = [f"{mean(map(abs, column)):.1f} % ({mean(column):+.1f} %)" for column in zip(*errors)]
    print(f"| {name}, {len(errors)} rows: mean error (bias) | " + " | ".join(cells) + " |")


def compare_with_blis(rows):
    """Prints the errors on the rows and metrics for which BLIS's error is known; its ITL is E2E over output tokens."""
    for metric, blis in [("tpot", "itl"), ("e2e", "e2e"), ("ttft", "ttft")]:
        known = [(r["error"][metric], r[f"blis_{blis}_percent"]) for r in rows if r[f"blis_{blis}_percent"] is not None]
        if known:
            ours, theirs = (mean(abs(pair[i]) for pair in known) for i in (0, 1))
            print(f"{metric}, {len(known)} rows: {ours:.1f} %, BLIS trained-physics {theirs:.1f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=BINARY)
    parser.add_argument("--flags", default=[], type=str.split, help="more flags of quire simulate, in one string")
    parser.add_argument("--split", choices=["fit", "test"])
    parser.add_argument("--hardware-folder", type=Path, help="descriptions to judge instead of the built-in ones")
    parser.add_argument("--csv", type=Path)
    args = parser.parse_args()
    table = load(Path(__file__).with_suffix(".json"))
    rows = [row for row in table["rows"] if args.split in (None, row["split"])]
    print("| run | TPOT ms: measured, predicted | error | E2E ms | error | TTFT ms | error |")
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        with tempfile.TemporaryDirectory() as folder:
            flags = flags_of(table, row, folder, args.hardware_folder) + args.flags
            guess = predicted(simulate(args.binary, folder, flags), row)
        real = measured(table, row)
        row["error"] = {metric: 100 * (guess[metric] / real[metric] - 1) for metric in METRICS}
        row.update({f"predicted_{metric}_ms": guess[metric] for metric in METRICS})
        rate = table["workloads"][row["workload"]]["stages"][row["stage"]][0]
        name = f"{row['model']}, {row['hardware']} x {row['tp']}, {row['workload']} {rate}/s ({row['split']})"
        cells = [f"{real[m]:.1f}, {guess[m]:.1f} | {row['error'][m]:+.1f} %" for m in METRICS]
        print(f"| {name} | " + " | ".join(cells) + " |")
    print()
    groups = {}
    for row in rows:
        groups.setdefault(row["split"], []).append(row)
        groups.setdefault(f"{row['split']}, {row['hardware']}", []).append(row)
    for name, members in groups.items():
        summary(name, [[row["error"][metric] for metric in METRICS] for row in members])
    print()
    compare_with_blis(rows)
    if args.csv:
        with args.csv.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, [k for k in rows[0] if k != "error"], extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
