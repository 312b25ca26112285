#!/usr/bin/env python3
"""Serves a model on this machine and loads it over HTTP: a table row for each number of clients.

    bench/serving/load.py [--clients 1,8,32] [--shape llama-3.2-1b] [--prompts-per-client 2] [-- serve flags…]

Closed loop: every client sends its next request when its last one has ended. Each row is `quire bench serve`, which
prints what the executor and the host took of the run; all of its output is shown with -v.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

from server import BINARY, Server


def load(args, port, clients):
    with tempfile.TemporaryDirectory() as folder:
        result = os.path.join(folder, "result.json")
        command = [args.binary, "bench", "serve", "--port", str(port), "--num-warmups", "1",
                   "--num-prompts", str(max(2, clients * args.prompts_per_client)), "--max-concurrency", str(clients),
                   "--random-input-len", str(args.input_len), "--random-output-len", str(args.output_len),
                   "--save-result", result]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr.strip())
        if args.verbose:
            print(done.stdout)
        with open(result, encoding="utf-8") as file:
            return json.load(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=BINARY)
    parser.add_argument("--shape", default="llama-3.2-1b")
    parser.add_argument("--model", help="a checkpoint instead of --shape")
    parser.add_argument("--clients", default="1,8,32")
    parser.add_argument("--prompts-per-client", type=int, default=2)
    parser.add_argument("--input-len", type=int, default=128)
    parser.add_argument("--output-len", type=int, default=64)
    parser.add_argument("-v", "--verbose", action="store_true")
    parser.add_argument("serve_flags", nargs="*")
    args = parser.parse_args()
    model = [args.model] if args.model else ["--shape", args.shape]
    with Server(args.binary, [*model, *args.serve_flags]) as server:
        print(f"{'clients':>7} {'output tok/s':>12} {'TTFT median ms':>15} {'ITL median ms':>14} {'ITL p99 ms':>11} "
              f"{'% of the bound':>14} {'executor % of wall':>19}")
        for clients in map(int, args.clients.split(",")):
            row = load(args, server.port, clients)
            percent = [f"{100 * row[name]:.0f}" if row.get(name) else "-" for name in ("bound_share", "executor_share")]
            print(f"{clients:7} {row['output_throughput']:12.1f} {row['median_ttft_ms']:15.0f} "
                  f"{row['median_itl_ms']:14.1f} {row['p99_itl_ms']:11.1f} {percent[0]:>14} {percent[1]:>19}", flush=True)
        print(f"resident memory {server.resident_mib():.0f} MiB")


main()
