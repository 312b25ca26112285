#!/usr/bin/env python3
"""Serves one model by Quire and by vLLM's CPU build at once and loads them in turns with `quire bench serve`.

    bench/peers/install_vllm
    bench/peers/serving.py MODEL [--cases 1:128:64,8:128:32,32:128:32,1:512:1] [--rounds 3] [--neighbour] [--random-weights]

MODEL is a Hugging Face folder. A case is clients:prompt tokens:output tokens; each client sends --requests requests, one
after the other. Prints the medians of both and of the ratios of neighbouring runs, one row of a Markdown table a case.
With --neighbour another process keeps one of the processors busy. With --random-weights vLLM does not read the weights.
"""
import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VENV = os.path.join(ROOT, "build/peers-vllm")
BINARY = os.path.join(ROOT, "build/release/quire")
PORTS = {"quire": 8901, "vllm": 8902}
MAX_MODEL_LEN = "4608"


def commands(args):
    vllm = [os.path.join(VENV, "bin/python"), os.path.join(ROOT, "bench/peers/vllm_server.py"), "serve", args.model,
            "--port", str(PORTS["vllm"]), "--dtype", "bfloat16", "--max-model-len", MAX_MODEL_LEN, "--max-num-seqs", "32",
            "--max-num-batched-tokens", "2048", "--no-enable-prefix-caching"]
    if args.random_weights:
        vllm += ["--load-format", "dummy"]
    quire = [BINARY, "serve", args.model, "--port", str(PORTS["quire"]), "--max-model-len", MAX_MODEL_LEN, "--max-num-seqs",
             "32", "--kv-cache-memory", "2GiB", "--no-enable-prefix-caching"]
    return {"quire": quire, "vllm": vllm}


def environment():
    """Returns the environment that vLLM's documentation recommends for CPUs."""
    preload = [path for path in (os.path.join(VENV, "lib/libiomp5.so"),
                                 "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4") if os.path.exists(path)]
    return {**os.environ, "LD_PRELOAD": ":".join(preload), "VLLM_CPU_OMP_THREADS_BIND": f"0-{os.cpu_count() - 1}",
            "VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_LOGGING_LEVEL": "WARNING"}


@contextlib.contextmanager
def servers(args):
    processes = {}
    try:
        for name, command in commands(args).items():
            processes[name] = subprocess.Popen(command, env=environment() if name == "vllm" else None,
                                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for name, process in processes.items():
            wait_for(name, process)
        yield
    finally:
        for process in processes.values():
            process.terminate()
        for process in processes.values():
            process.wait()


def wait_for(name, process):
    deadline = time.monotonic() + 900
    while time.monotonic() < deadline:
        if process.poll() is not None:
            sys.exit(f"{name}: ended with exit code {process.returncode} before it answered")
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{PORTS[name]}/v1/models", timeout=5).close()
            return
        time.sleep(1)
    sys.exit(f"{name}: no answer within 900 s")


def run(name, case, seed, requests):
    clients, prompt, output = case
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run([BINARY, "bench", "serve", "--port", str(PORTS[name]), "--num-prompts", str(clients * requests),
                        "--max-concurrency", str(clients), "--random-input-len", str(prompt), "--random-output-len",
                        str(output), "--seed", str(seed), "--save-result", file.name], check=True, stdout=subprocess.DEVNULL)
        return json.load(file)


def figures(result, output):
    """Returns speeds, of which higher is better, and times, of which lower is better."""
    if output == 1:
        return {"prompt tokens/s": result["total_input_tokens"] / result["duration"]}
    return {"output tokens/s": result["output_throughput"], "ITL p99, ms": result["p99_itl_ms"]}


def measure(case, args):
    rounds = []
    for number in range(args.rounds + 1):
        pair = {name: figures(run(name, case, number, args.requests), case[2]) for name in PORTS}
        if number > 0:  # the first is a warm-up
            rounds.append(pair)
    clients, prompt, output = case
    what = f"{clients} client{'s' * (clients > 1)}, {prompt} + {output} tokens"
    for figure in rounds[0]["quire"]:
        ours, theirs = ([pair[name][figure] for pair in rounds] for name in PORTS)
        ratio = statistics.median(a / b for a, b in zip(ours, theirs))
        print(f"| {what}: {figure} | {statistics.median(ours):.1f} | {statistics.median(theirs):.1f} | {ratio:.2f}x | "
              f"{len(rounds)} |", flush=True)


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--cases", default="1:128:64,8:128:32,32:128:32,1:512:1,1:4096:1")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=2, help="of each client")
    parser.add_argument("--neighbour", action="store_true")
    parser.add_argument("--random-weights", action="store_true")
    args = parser.parse_args()
    try:
        args.cases = [tuple(int(part) for part in case.split(":")) for case in args.cases.split(",")]
    except ValueError:
        args.cases = [()]
    if any(len(case) != 3 or min(case) < 1 for case in args.cases):
        parser.error("--cases: expected clients:prompt tokens:output tokens, such as 8:128:32")
    return args


def main():
    args = parse_args()
    with servers(args):
        neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if args.neighbour else None
        try:
            print("| what | Quire | vLLM | ratio | pairs of runs |\n|---|--:|--:|--:|--:|", flush=True)
            for case in args.cases:
                measure(case, args)
        finally:
            if neighbour:
                neighbour.kill()
                neighbour.wait()


main()
