#!/usr/bin/env python3
"""Beam search of Quire beside that of transformers on the same bf16 model, in turns. Needs torch and transformers.

    quire serve MODEL --port 8000 --no-enable-prefix-caching
    bench/peers/beams.py MODEL [--port 8000] [--beams 4] [--tokens 48] [--rounds 5]

Prints the median seconds of a search in both and the median of the ratios of neighbouring runs.
"""
import argparse
import json
import os
import statistics
import time
import urllib.request

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

PROMPT = "The history of the lighthouse begins with fires on hills. Later people built towers of stone, and"


def quire_s(args, ids):
    """Returns the seconds of a search with Hugging Face's early-stopping rule; the first request asks for the model's
    name."""
    url = f"http://127.0.0.1:{args.port}/v1"
    with urllib.request.urlopen(f"{url}/models") as answer:
        model = json.load(answer)["data"][0]["id"]
    body = {"model": model, "prompt": ids, "max_tokens": args.tokens, "use_beam_search": True, "n": args.beams,
            "early_stopping": False, "ignore_eos": True}
    request = urllib.request.Request(f"{url}/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    start = time.perf_counter()
    with urllib.request.urlopen(request) as answer:
        json.load(answer)
    return time.perf_counter() - start


def transformers_s(args, model, ids):
    start = time.perf_counter()
    with torch.inference_mode():
        model.generate(torch.tensor([ids]), num_beams=args.beams, max_new_tokens=args.tokens, min_new_tokens=args.tokens,
                       do_sample=False, early_stopping=False)
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--beams", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(os.cpu_count())
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.bfloat16).eval()
    ids = AutoTokenizer.from_pretrained(args.model)(PROMPT)["input_ids"]
    pairs = []
    for number in range(args.rounds + 1):
        pair = quire_s(args, ids), transformers_s(args, model, ids)
        if number > 0:  # the first is a warm-up
            pairs.append(pair)
    ours, theirs = zip(*pairs)
    print(f"{args.beams} beams, {args.tokens} tokens: quire {statistics.median(ours):.2f} s, transformers "
          f"{statistics.median(theirs):.2f} s, {statistics.median(b / a for a, b in pairs):.2f}x")


main()
