#!/usr/bin/env python3
"""Predicts serving runs that others have published, and prints the errors.

    bench/roofline/published_runs.py --hardware rtx-pro-6000 [--binary FILE] RUN…

RUN is a folder as LLMServingSim publishes them (bench/examples/GPU/MODEL): config.json is the model, vllm/meta.json
the settings and the KV blocks that vLLM had, vllm/requests.jsonl one line for each request with its lengths and the
times at which it was queued, gave its first token and its last. Nothing of a run is fitted; times count from the
engine's queue, so that the front end of the server is left out on both sides.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean, median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "serving"))
from server import BINARY  # noqa: E402


def read_requests(path):
    with open(path, encoding="utf-8") as file:
        requests = [json.loads(line) for line in file if line.strip()]
    return sorted((r for r in requests if r["output_toks"] > 1), key=lambda r: r["queued_ts"])


def measured(requests):
    ttft = [1e3 * (r["first_token_ts"] - r["queued_ts"]) for r in requests]
    e2e = [1e3 * (r["last_token_ts"] - r["queued_ts"]) for r in requests]
    tpot = [(e - t) / (r["output_toks"] - 1) for e, t, r in zip(e2e, ttft, requests)]
    return {"mean_tpot_ms": mean(tpot), "mean_e2el_ms": mean(e2e), "median_ttft_ms": median(ttft)}


def settings(run):
    meta_path = run / "vllm" / "meta.json"
    if not meta_path.exists():
        return []
    meta = json.loads(meta_path.read_text(encoding="utf-8"))
    engine, cache = meta["engine_kwargs"], meta["kv_cache"]
    return ["--tp", str(engine["tensor_parallel_size"]), "--max-num-seqs", str(engine["max_num_seqs"]),
            "--max-num-batched-tokens", str(engine["max_num_batched_tokens"]),
            "--block-size", str(cache["block_size"]), "--num-gpu-blocks-override", str(cache["num_gpu_blocks"])]


def simulate(binary, folder, flags):
    """Returns the figures of one `quire simulate`."""
    result = Path(folder) / "result.json"
    command = [binary, "simulate", *map(str, flags), "--json", str(result)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(result.read_text(encoding="utf-8"))


def predicted(args, run, requests, folder):
    trace = Path(folder) / "trace.csv"
    begin = requests[0]["queued_ts"]
    lines = ["arrived_at,num_prefill_tokens,num_decode_tokens"]
    lines += [f"{r['queued_ts'] - begin:.6f},{r['input_toks']},{r['output_toks']}" for r in requests]
    trace.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return simulate(args.binary, folder, [
        run / "config.json", "--hardware", args.hardware, "--admission-ms", "0", *settings(run), *args.flags,
        "--trace", trace])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=BINARY)
    parser.add_argument("--hardware", required=True)
    parser.add_argument("--flags", default=[], type=str.split, help="more flags of quire simulate, in one string")
    parser.add_argument("runs", nargs="+", type=Path)
    args = parser.parse_args()
    print("| run | TPOT ms: measured, predicted | error | E2E ms | error | TTFT p50 ms | error |")
    print("|---|---|---|---|---|---|---|")
    for run in args.runs:
        requests = read_requests(run / "vllm" / "requests.jsonl")
        real = measured(requests)
        with tempfile.TemporaryDirectory() as folder:
            guess = predicted(args, run, requests, folder)
        cells = [f"{real[k]:.1f}, {guess[k]:.1f} | {100 * (guess[k] / real[k] - 1):+.1f} %" for k in real]
        print(f"| {run.name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
