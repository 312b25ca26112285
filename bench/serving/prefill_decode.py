#!/usr/bin/env python3
"""What a handover costs: time to the first token on one server, and on two of which one prefills and one decodes.

    bench/serving/prefill_decode.py --binary build/release/quire --shape llama-3.2-1b --tokens 2048 --prompts 3 [-- flags of quire serve]

The two servers have the whole machine in turns, since only one of them works at a time.
"""
import argparse
import json
import random
import statistics
import tempfile
import time
import urllib.request

from kv_files import metric, start


def ask_s(url, prompt, params=None, max_tokens=1):
    """Returns seconds to the whole answer, and the answer."""
    body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True, "return_token_ids": True,
            "kv_transfer_params": params}
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    begin = time.perf_counter()
    with urllib.request.urlopen(request, timeout=600) as answer:
        done = json.load(answer)
    return time.perf_counter() - begin, done


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--shape", default="llama-3.2-1b")
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--prompts", type=int, default=3)
    parser.add_argument("--folder", default="/dev/shm", help="in which the directory of KV is made")
    parser.add_argument("flags", nargs="*")
    args = parser.parse_args()
    draw = random.Random(1)
    prompts = [[draw.randrange(1000, 30000) for _ in range(args.tokens)] for _ in range(args.prompts)]
    command = [args.binary, "serve", "--shape", args.shape, "--port", "0", "--max-model-len", str(args.tokens + 64), *args.flags]

    def role(folder, kv_role):
        config = json.dumps({"kv_connector": "QuireConnector", "kv_role": kv_role})
        return start([*command, "--kv-cache-dir", folder, "--kv-transfer-config", config])

    plain, url = start(command)
    ask_s(url, [1, 2, 3])
    alone = [ask_s(url, prompt) for prompt in prompts]
    plain.terminate()
    plain.wait()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        producer, producer_url = role(folder, "kv_producer")
        consumer, consumer_url = role(folder, "kv_consumer")
        for server in (producer_url, consumer_url):
            ask_s(server, [1, 2, 3])
        first, second = [], []
        for prompt, (_, want) in zip(prompts, alone):
            seconds, answer = ask_s(producer_url, prompt, {"do_remote_decode": True})
            first.append(seconds)
            seconds, answer = ask_s(consumer_url, prompt, answer["kv_transfer_params"])
            second.append(seconds)
            assert answer["choices"][0]["token_ids"] == want["choices"][0]["token_ids"], "other bits"
        mib = metric(consumer_url, "quire:kv_file_bytes_loaded_total") / 2**20 / len(prompts)
        read_s = metric(consumer_url, "quire:kv_file_load_microseconds_total") / 1e6 / len(prompts)
        store_s = metric(producer_url, "quire:kv_file_store_microseconds_total") / 1e6 / len(prompts)
        for server in (producer, consumer):
            server.terminate()
            server.wait()
    alone_s = [seconds for seconds, _ in alone]
    extra = [a + b - c for a, b, c in zip(first, second, alone_s)]
    print(f"one server: {', '.join(f'{s:.3f}' for s in alone_s)} s to the first token")
    print(f"prefill: {', '.join(f'{s:.3f}' for s in first)} s until the KV is handed over; "
          f"decode: {', '.join(f'{s:.3f}' for s in second)} s to the first token")
    print(f"{mib:.0f} MiB a prompt, written in {store_s:.3f} s and read in {read_s:.3f} s of threads beside the steps")
    print(f"median of what two servers take more: {statistics.median(extra) * 1e3:.1f} ms "
          f"({statistics.median(extra) / statistics.median(alone_s):+.3f} of one)")


if __name__ == "__main__":
    main()
