#!/usr/bin/env python3
"""Prints what the cost model and the simulator are asked to reach beside what they reach.

    bench/roofline/targets.py [--binary FILE] [--data FOLDER]

Errors are of rows that nothing was fitted to: the split `test` of vllm_runs.json, the halves of the operator tables
that were left out of the fits, and what servers logged of their memory. DATA is a folder with perf/ and traces/,
which hold published measurements; rows whose files are not there are printed as SKIPPED. Speeds are of this
machine and moment.
"""
import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent))
import memory_runs  # noqa: E402
import vllm_runs  # noqa: E402
from published_runs import BINARY, simulate  # noqa: E402

TABLES = "aiconfigurator/h100_sxm"
OPERATORS = ["gemm_perf", "context_attention_perf", "generation_attention_perf", "moe_perf", "nccl_perf",
             "custom_allreduce_perf"]
LINE = re.compile(r"^(?P<what>.+?)\s+\d+ \+ (?P<samples>\d+) samples.*other half (?P<error>[\d.]+) %"
                  r"(?: \(bias (?P<bias>[-+][\d.]+) %\))?(?:.*table (?P<table>[\d.]+) %)?")
SPEED = re.compile(r": (\d+) requests/s")
TRACES = ["mooncake_synthetic.jsonl.gz", "azure_llm_2023_code.csv.gz", "servegen/m-small",
          "vidur_arxiv_summarization_lengths.csv.gz"]
MODEL = Path(__file__).resolve().parents[2] / "docs" / "examples" / "llama-3.1-8b.json"


def row(what, target, reached, rows):
    print(f"| {what} | {target} | {reached} | {rows} |")


def published_runs(binary):
    table = vllm_runs.load(Path(vllm_runs.__file__).with_suffix(".json"))
    rows = [r for r in table["rows"] if r["split"] == "test"]
    errors = {metric: [] for metric in vllm_runs.METRICS}
    for r in rows:
        with tempfile.TemporaryDirectory() as folder:
            guess = vllm_runs.predicted(simulate(binary, folder, vllm_runs.flags_of(table, r, folder, None)), r)
        real = vllm_runs.measured(table, r)
        for metric, values in errors.items():
            values.append(100 * abs(guess[metric] / real[metric] - 1))
    for metric, target in [("tpot", "4"), ("e2e", "4"), ("ttft", "8")]:
        row(f"dense models, {metric.upper()}, median", f"{target} %", f"{median(errors[metric]):.1f} %", len(rows))


def operator_tables(binary, folder):
    for name in OPERATORS:
        path = folder / TABLES / f"{name}.csv.gz"
        if not path.exists():
            row(name, "12 %", "SKIPPED", 0)
            continue
        done = subprocess.run([binary, "roofline", "calibrate", path, "--hardware", "h100-sxm", "--judge-only"],
                              capture_output=True, text=True, check=True)
        for line in done.stdout.splitlines():
            found = LINE.match(line)
            if not found:
                continue
            row(f"{found['what']}, constants", "12 %", f"{found['error']} % ({found['bias'] or '-'} %)",
                found["samples"])
            if found["table"]:
                row(f"{found['what']}, tables", "5 %", f"{found['table']} %", found["samples"])


def memory(binary):
    errors = memory_runs.errors(binary)
    row("KV cache of servers that logged it, median", "-", f"{median(map(abs, errors)):.1f} %", len(errors))


def speed(binary, folder):
    for name in TRACES:
        path = folder / name
        if not path.exists():
            row(f"speed on {name}", "20000 requests/s", "SKIPPED", 0)
            continue
        rate = ["--rate", "10"] if "vidur" in name or "servegen" in name else []
        done = subprocess.run([binary, "simulate", MODEL, "--replicas", "4", "--trace", path, *rate],
                              capture_output=True, text=True, check=False)
        found = SPEED.search(done.stderr)
        row(f"speed on {name}", "20000 requests/s", f"{found[1]} requests/s" if found else done.stderr.strip(), 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=BINARY)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2].parent / "shared" / "data")
    args = parser.parse_args()
    print("| what | target | reached (bias) | rows |")
    print("|---|---|---|---|")
    published_runs(args.binary)
    operator_tables(args.binary, args.data / "perf")
    memory(args.binary)
    speed(args.binary, args.data / "traces")


if __name__ == "__main__":
    main()
