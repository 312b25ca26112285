#!/usr/bin/env python3
"""Compares routing policies on traces at three loads, and says where least-delay is worse than another.

    bench/roofline/routing.py [--binary FILE] [--replicas N] [--csv FILE] MODEL TRACE…

Loads are what keeps the fleet about 25, 50 and 80 % busy: the arrivals of each trace are scaled to that, from a run at
its own rate. A TRACE may be the word "sessions" or "prefixes", for synthetic ones.
"""
import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from published_runs import BINARY  # noqa: E402

POLICIES = ["round-robin", "least-requests", "least-tokens", "prefix-aware", "least-delay", "oracle"]
JUDGED = ["mean_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "mean_e2el_ms"]
LOADS = [0.25, 0.5, 0.8]
SYNTHETIC = {
    "sessions": ["--turns", "uniform:1:8", "--input-len", "lognormal:600:600", "--output-len", "lognormal:200:150",
                 "--think-time", "20"],
    "prefixes": ["--prefix-len", "3000", "--num-prefixes", "40", "--input-len", "lognormal:300:300", "--output-len",
                 "lognormal:150:150"],
}


def simulate(args, trace, policy, rate):
    workload = ["--trace", trace, "--rate-scale", rate] if trace not in SYNTHETIC else [*SYNTHETIC[trace], "--rate", rate]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run.json"
        command = [args.binary, "simulate", args.model, "--replicas", args.replicas, "--routing", policy, "--num-requests",
                   args.num_requests, *workload, "--json", out, *args.flags]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
        return json.loads(out.read_text(encoding="utf-8"))


def rate_for(args, trace, load):
    """Finds the rate (or the scale of a trace's own) at which round-robin keeps the fleet this busy, by secant steps:
    busy time goes up less than the rate, since busier engines compute larger steps."""
    rate = 1.0
    for _ in range(8):
        busy = simulate(args, trace, "round-robin", rate)["fleet"]["busy_share"]
        if abs(busy - load) < 0.02:
            break
        rate *= min(4.0, max(0.25, load / max(busy, 1e-3)))
    return rate


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--binary", default=BINARY)
    parser.add_argument("--replicas", type=int, default=16)
    parser.add_argument("--num-requests", type=int, default=4000)
    parser.add_argument("--flags", default=[], type=str.split, help="more flags of quire simulate, in one string")
    parser.add_argument("--csv", type=Path)
    args = parser.parse_args()
    rows, worse = [], []
    print("| trace, busy | policy | hits | TTFT mean, p99 ms | TPOT mean ms | E2E mean s |")
    print("|---|---|---|---|---|---|")
    for trace in args.traces:
        for load in LOADS:
            rate = rate_for(args, trace, load)
            runs = {policy: simulate(args, trace, policy, rate) for policy in POLICIES}
            ours = runs["least-delay"]
            name = Path(trace).name.split(".")[0]
            for policy, run in runs.items():
                hits = 100 * run["fleet"]["prefix_hit_rate"]
                print(f"| {name}, {100 * load:.0f} % | {policy} | {hits:.1f} % | {run['mean_ttft_ms']:.0f}, "
                      f"{run['p99_ttft_ms']:.0f} | {run['mean_tpot_ms']:.2f} | {run['mean_e2el_ms'] / 1e3:.2f} |")
                rows.append({"trace": name, "load": load, "policy": policy, "hits": hits, **{k: run[k] for k in JUDGED}})
                if policy in ("least-delay", "oracle"):
                    continue
                worse += [f"{name} at {100 * load:.0f} %: {key} {ours[key]:.2f}, {policy} {run[key]:.2f}"
                          for key in JUDGED if ours[key] > 1.02 * run[key]]
    print(f"\nleast-delay is more than 2 % worse in {len(worse)} of {len(rows) // len(POLICIES) * 4 * len(JUDGED)} "
          "comparisons" + "".join(f"\n- {line}" for line in worse))
    if args.csv:
        with args.csv.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
