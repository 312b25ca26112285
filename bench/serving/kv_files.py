#!/usr/bin/env python3
"""Time to the first token of long prompts: computed, and read from files after a restart.

    bench/serving/kv_files.py --binary build/release/quire --shape llama-3.2-1b --tokens 4096 --prompts 3 [-- flags of quire serve]
"""
import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request


def start(command):
    log = tempfile.TemporaryFile("w+")
    process = subprocess.Popen(command, stdout=log, stderr=log)
    while process.poll() is None:
        log.seek(0)
        found = re.search(r"http://[\d.]+:\d+", log.read())
        if found:
            return process, found.group(0)
        time.sleep(0.05)
    log.seek(0)
    sys.exit(f"the server did not start:\n{log.read()}")


def first_token_s(url, prompt):
    """Returns the seconds until an answer of one token was complete, and the number of cached tokens."""
    body = {"prompt": prompt, "max_tokens": 1, "temperature": 0}
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    begin = time.perf_counter()
    with urllib.request.urlopen(request, timeout=600) as answer:
        done = json.load(answer)
    return time.perf_counter() - begin, done["usage"]["prompt_tokens_details"]["cached_tokens"]


def forget(folder):
    """Drops the files from the page cache, as far as the system does so."""
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def metric(url, name):
    with urllib.request.urlopen(url + "/metrics", timeout=60) as answer:
        return sum(float(line.rsplit(b" ", 1)[1]) for line in answer if line.startswith(name.encode() + b"{"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--shape", default="llama-3.2-1b")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--prompts", type=int, default=3)
    parser.add_argument("--warm", action="store_true", help="leave the files in the page cache")
    parser.add_argument("flags", nargs="*")
    args = parser.parse_args()
    draw = random.Random(1)
    prompts = [[draw.randrange(1000, 30000) for _ in range(args.tokens)] for _ in range(args.prompts)]
    with tempfile.TemporaryDirectory() as folder:
        command = [args.binary, "serve", "--shape", args.shape, "--port", "0", "--enable-prompt-tokens-details",
                   "--kv-cache-dir", folder, "--max-model-len", str(args.tokens + 64), *args.flags]
        times = []
        for what in ("computed", "from files"):
            process, url = start(command)
            if times:
                while metric(url, "quire:kv_file_blocks") < args.prompts * (args.tokens // 16):
                    time.sleep(0.05)
            measured = [first_token_s(url, prompt) for prompt in prompts]
            if not times:
                while metric(url, "quire:kv_file_blocks_stored_total") < args.prompts * (args.tokens // 16):
                    time.sleep(0.05)
            times.append([seconds for seconds, _ in measured])
            print(f"{what}: {', '.join(f'{s:.3f}' for s, _ in measured)} s; cached tokens "
                  f"{', '.join(str(cached) for _, cached in measured)}; read "
                  f"{metric(url, 'quire:kv_file_bytes_loaded_total') / 2**20:.0f} MiB in "
                  f"{metric(url, 'quire:kv_file_load_microseconds_total') / 1e6:.3f} s")
            process.terminate()
            process.wait()
            if not args.warm:
                forget(folder)
    computed, read = map(statistics.median, times)
    print(f"median {computed:.3f} s computed, {read:.3f} s from files: {read / computed:.3f}")


if __name__ == "__main__":
    main()
