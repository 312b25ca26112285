#!/usr/bin/env python3
"""What a handover costs: time to the first token on one server, and on two of which one prefills and one decodes.

    bench/serving/prefill_decode.py --binary build/release/quire --shape llama-3.2-1b --tokens 2048 --prompts 3 [-- flags of quire serve]

The two servers have the whole machine in turns, since only one of them works at a time. What the handover takes is told by the servers
themselves: the prefilling one gets as many prompts whose KV nobody wants, and the decoding one each prompt again, when it has all KV in its
own cache and only the step of the first token is left.
The KV cache is small, and prompts that nobody measures come first, so that memory has been touched before.
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
    """Returns the seconds until the answer was complete, and the answer."""
    body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True, "return_token_ids": True,
            "kv_transfer_params": params}
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    begin = time.perf_counter()
    with urllib.request.urlopen(request, timeout=600) as answer:
        done = json.load(answer)
    return time.perf_counter() - begin, done


def copied_bytes_per_s():
    """Returns the bytes per second that one thread reads and writes when it copies memory."""
    source = bytearray(256 << 20)
    target = bytearray(256 << 20)
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        target[:] = source
        times.append(time.perf_counter() - begin)
    return 2 * len(source) / statistics.median(times)


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
    warm_up, prompts, others = ([[draw.randrange(1000, 30000) for _ in range(args.tokens)] for _ in range(n)]
                                for n in (3, args.prompts, args.prompts))
    blocks = 5 * args.tokens // 32  # blocks of 16 tokens for two and a half prompts
    command = [args.binary, "serve", "--shape", args.shape, "--port", "0", "--max-model-len", str(args.tokens + 64),
               "--num-gpu-blocks-override", str(blocks), *args.flags]

    def role(folder, kv_role):
        config = json.dumps({"kv_connector": "QuireConnector", "kv_role": kv_role})
        return start([*command, "--kv-cache-dir", folder, "--kv-transfer-config", config])

    plain, url = start(command)
    for prompt in warm_up:
        ask_s(url, prompt)
    alone = [ask_s(url, prompt) for prompt in prompts]
    plain.terminate()
    plain.wait()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        producer, producer_url = role(folder, "kv_producer")
        consumer, consumer_url = role(folder, "kv_consumer")
        for prompt in warm_up:
            params = ask_s(producer_url, prompt, {"do_remote_decode": True})[1]["kv_transfer_params"]
            ask_s(consumer_url, prompt, params)
        first, second, again, unasked = [], [], [], []
        for prompt, other, (_, want) in zip(prompts, others, alone):
            unasked.append(ask_s(producer_url, other)[0])
            seconds, answer = ask_s(producer_url, prompt, {"do_remote_decode": True})
            first.append(seconds)
            seconds, answer = ask_s(consumer_url, prompt, answer["kv_transfer_params"])
            second.append(seconds)
            assert answer["choices"][0]["token_ids"] == want["choices"][0]["token_ids"], "other bits"
            again.append(ask_s(consumer_url, prompt)[0])
        mib = metric(consumer_url, "quire:kv_file_bytes_loaded_total") / 2**20 / (len(prompts) + len(warm_up))
        read_s = metric(consumer_url, "quire:kv_file_load_microseconds_total") / 1e6 / (len(prompts) + len(warm_up))
        store_s = metric(producer_url, "quire:kv_file_store_microseconds_total") / 1e6 / (2 * len(prompts) + len(warm_up))
        for server in (producer, consumer):
            server.terminate()
            server.wait()
    alone_s = [seconds for seconds, _ in alone]
    extra = [a + b - c for a, b, c in zip(first, second, alone_s)]
    print(f"one server: {', '.join(f'{s:.3f}' for s in alone_s)} s to the first token")
    print(f"prefill: {', '.join(f'{s:.3f}' for s in first)} s until the KV is handed over; "
          f"decode: {', '.join(f'{s:.3f}' for s in second)} s to the first token")
    print(f"{mib:.0f} MiB a prompt, written in {store_s:.3f} s and read in {read_s:.3f} s of threads beside the steps")
    handover = [a - c + b - d for a, b, c, d in zip(first, second, unasked, again)]
    bound_ms = mib * 2**20 / copied_bytes_per_s() * 1e3 + 2
    print(f"of the decoding server's time {statistics.median(again) * 1e3:.0f} ms are the step of the first token; the handover takes "
          f"{statistics.median(handover) * 1e3:.1f} ms, bytes / memory bandwidth + 2 ms are {bound_ms:.1f} ms")
    print(f"median of what two servers take more: {statistics.median(extra) * 1e3:.1f} ms "
          f"({statistics.median(extra) / statistics.median(alone_s):+.3f} of one)")


if __name__ == "__main__":
    main()
