#!/usr/bin/env python3
"""Quire beside llama.cpp on this machine: the same random-weight GGUF file, the same case, in turns.

    bench/peers/run [--shape llama-3.2-1b] [--types bf16,q8_0,q4_0] [--cases decode,…] [--rounds 3]

Prints per case the median tokens/s of both and the median of the ratios of neighbouring runs: on a shared machine the
ratio is what counts. Models are kept in build/peers/models (remove them when done).
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys

import random_gguf

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CASES = {
    "decode": {"kind": "decode", "context": 128, "batch": 1, "tokens": 64},
    "decode-4096": {"kind": "decode", "context": 4096, "batch": 1, "tokens": 32},
    "prefill-512": {"kind": "prefill", "context": 512, "batch": 1, "tokens": 1},
    "prefill-2048": {"kind": "prefill", "context": 2048, "batch": 1, "tokens": 1},
    "parallel-32": {"kind": "decode", "context": 128, "batch": 32, "tokens": 32},
}


def run_quire(binary, model, case, threads):
    """Tokens per second of one `quire bench latency` run."""
    output_len = 2 if case["kind"] == "prefill" else case["tokens"] + 1
    command = [binary, "bench", "latency", model, "--input-len", str(case["context"]), "--output-len", str(output_len),
               "--batch-size", str(case["batch"]), "--num-iters", "1", "--threads", str(threads),
               "--max-num-batched-tokens", "2048"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    line = re.search(rf"^{case['kind']} .*?([\d.]+) tokens/s", done.stdout, re.M)
    return float(line.group(1))


def run_llama_cpp(model, case, threads):
    worker = os.path.join(ROOT, "bench/peers/llama_cpp_worker.py")
    done = subprocess.run([sys.executable, worker, model, json.dumps(case), str(threads)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"llama.cpp: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout.splitlines()[-1])["tokens_per_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(ROOT, "build/release/quire"))
    parser.add_argument("--shape", default="llama-3.2-1b", choices=sorted(random_gguf.SHAPES))
    parser.add_argument("--types", default="bf16,q8_0,q4_0")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    models = os.path.join(ROOT, "build/peers/models")
    os.makedirs(models, exist_ok=True)
    print(f"{'type':6} {'case':14} {'quire':>10} {'llama.cpp':>10} {'ratio':>7}   (tokens/s, {args.threads} threads, "
          f"median of {args.rounds} alternating rounds)")
    for kind in args.types.split(","):
        model = os.path.join(models, f"{args.shape}-{kind}.gguf")
        random_gguf.write(model, random_gguf.SHAPES[args.shape], kind)
        for name in args.cases.split(","):
            ours, theirs = [], []
            for _ in range(args.rounds):
                ours.append(run_quire(args.binary, model, CASES[name], args.threads))
                theirs.append(run_llama_cpp(model, CASES[name], args.threads))
            ratio = statistics.median(a / b for a, b in zip(ours, theirs))
            print(f"{kind:6} {name:14} {statistics.median(ours):10.1f} {statistics.median(theirs):10.1f} {ratio:6.2f}x",
                  flush=True)


main()
