#!/usr/bin/env python3
"""Compares the prompt and token times that Splitwise published (its data/perf_model.csv), with what `quire simulate` says of them.

    bench/roofline/splitwise_phases.py perf_model.csv.gz

Every row is one batch: so many prompts of equal length at once, then their tokens; the median of rows of one kind counts.
Built-in hardware descriptions, Llama-2-70B in bfloat16: prompt time against the mean TTFT, token time against TPOT. Batches
that do not fit into one step, or took less than the limits of the device allow, are left out. The engine of the time (2023) launched kernels one by one, so errors are given
twice: nothing fitted, and with one constant per step and device, the median of what the token times of every other batch
lack, judged on the rest.
"""
import argparse
import collections
import csv
import gzip
import json
import statistics
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEVICES = {"a100-80gb": "a100-sxm", "h100-80gb": "h100-sxm"}
LLAMA2_70B = {
    "model_type": "llama", "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64,
    "num_key_value_heads": 8, "intermediate_size": 28672, "vocab_size": 32000, "max_position_embeddings": 16384,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16"}


def simulate(binary, folder, device, tp, prompt, batch, tokens, fidelity="analytic"):
    config, out = folder / "config.json", folder / "out.json"
    config.write_text(json.dumps(LLAMA2_70B), encoding="utf-8")
    command = [binary, "simulate", config, "--hardware", device, "--tp", tp, "--concurrency", batch, "--num-requests", batch,
               "--input-len", prompt, "--output-len", tokens, "--max-num-batched-tokens", max(prompt * batch, 1),
               "--max-num-seqs", max(batch, 1), "--memory-utilization", "0.97", "--no-enable-prefix-caching", "--admission-ms", "0", "--fidelity", fidelity, "--json", out]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None
    figures = json.loads(out.read_text(encoding="utf-8"))
    at_once = figures["completed"] == batch and figures["std_ttft_ms"] < 0.01 * figures["mean_ttft_ms"]
    return (figures["mean_ttft_ms"], figures["mean_tpot_ms"]) if at_once else None


def error_of(rows, phase, constant_ms):
    errors = [100 * ((got[phase] + constant_ms) / real[phase] - 1) for got, real in rows if real[phase] > 0]
    return f"{statistics.mean(map(abs, errors)):.1f} % ({statistics.mean(errors):+.1f} %)"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--binary", default=ROOT / "build/release/quire")
    args = parser.parse_args()
    measured = collections.defaultdict(list)
    with gzip.open(args.table, "rt") as file:
        for row in csv.DictReader(file):
            if row["model"] == "llama2-70b" and row["hardware"] in DEVICES:
                key = (row["hardware"], *(int(row[k]) for k in ("tensor_parallel", "prompt_size", "batch_size", "token_size")))
                measured[key].append((float(row["prompt_time"]), float(row["token_time"])))
    errors = collections.defaultdict(list)
    left_out = 0
    with tempfile.TemporaryDirectory() as folder:
        for (device, tp, prompt, batch, tokens), times in sorted(measured.items()):
            batch_of = (args.binary, Path(folder), DEVICES[device], tp, prompt, batch, tokens)
            got, least = simulate(*batch_of), simulate(*batch_of, "bound")
            real = [statistics.median(column) for column in zip(*times)]
            if got is None or least is None or any(r < 0.95 * b for r, b in zip(real, least)):
                left_out += 1
                continue
            errors[device, tp].append((got, real))
    print("| device, tp | batches | prompt time: error (bias) | token time | constant per step | prompt time with it | token time |")
    print("|---|---|---|---|---|---|---|")
    for key, rows in sorted(errors.items()):
        constant = statistics.median(real[1] - got[1] for got, real in rows[::2])
        cells = [*(error_of(rows, phase, 0) for phase in range(2)), f"{constant:.1f} ms",
                 *(error_of(rows[1::2], phase, constant) for phase in range(2))]
        print(f"| {key[0]}, {key[1]} | {len(rows)} | " + " | ".join(cells) + " |")
    print(f"{left_out} batches left out")


if __name__ == "__main__":
    main()
