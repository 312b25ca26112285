#!/usr/bin/env python3
"""Whether two programs give the same answers, bit for bit: tools/same_bits.py OLD NEW [--models REGEX] [--isas LIST]

Both answer a fixed set of requests (greedy and sampled, with log-probabilities of outputs and prompts) over every tiny
model in tests/goldens/, on every instruction set of this machine, in four ways: one request after the other, all at
once, in small chunks, and with so few KV blocks that requests are preempted. Token ids and log-probabilities must be
equal: those of NEW to those of OLD, and those of every way to those of the first one.
"""
import argparse
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ISAS = ("portable", "avx2", "avx512", "amx")
WAYS = {
    "alone": ["--max-concurrent", "1"],
    "crowd": [],
    "chunks": ["--max-num-batched-tokens", "16", "--max-num-seqs", "8"],
    "preempted": ["--num-gpu-blocks-override", "14", "--block-size", "8", "--no-scheduler-reserve-full-isl"],
}


def requests():
    """Returns prompts with lengths around those of blocks and chunks, of ids that every model's vocabulary has."""
    lines = []
    for i, length in enumerate((1, 7, 16, 17, 33, 48, 33, 5)):
        prompt = [3 + (11 * i + 7 * j + j * j // 3) % 90 for j in range(length)]
        body = {"prompt": prompt, "max_tokens": 12, "min_tokens": 12, "ignore_eos": True, "logprobs": 3,
                "return_token_ids": True, "temperature": 0}
        if i % 2:
            body.update(temperature=0.8, top_p=0.95, top_k=40, seed=i)
        if i == 4:
            body["prompt_logprobs"] = 2
        lines.append(json.dumps({"custom_id": str(i), "method": "POST", "url": "/v1/completions", "body": body}))
    return "\n".join(lines) + "\n"


def answers(program, model, isa, way, folder):
    """Returns {request: (ids, log-probabilities) or an error}, or the reason why there are none."""
    output = folder / f"{abs(hash((program, model, isa, way)))}.jsonl"
    run = subprocess.run(
        [program, "run-batch", str(model), "-i", str(folder / "requests"), "-o", str(output), "--overwrite", "--isa", isa,
         "--hardware", "none", "--threads", "1", "--kv-cache-memory", "64MiB", "--max-model-len", "96",
         "--served-model-name", "model"] + WAYS[way],
        capture_output=True, text=True, timeout=120)
    if not output.exists():
        return "refused: " + run.stderr.strip()[-200:]
    result = {}
    for line in output.read_text().splitlines():
        answer = json.loads(line)
        body = answer["response"]["body"]
        if "choices" not in body:
            result[answer["custom_id"]] = json.dumps(body)
            continue
        choice = body["choices"][0]
        result[answer["custom_id"]] = (choice["token_ids"], choice["logprobs"]["token_logprobs"],
                                       choice.get("prompt_logprobs"))
    output.unlink()
    return result


def compare(args, model, isa, folder):
    problems, num_answered, first = [], 0, None
    for way in WAYS:
        old = answers(args.old, model, isa, way, folder)
        new = answers(args.new, model, isa, way, folder)
        if old != new:
            problems.append(f"{model.name} {isa} {way}: differs")
        if isinstance(new, str):
            continue
        num_answered += 1
        if first is not None and new != first:
            problems.append(f"{model.name} {isa} {way}: the new program's answers differ from those one by one")
        first = first or new
    return problems, num_answered


def isas_here():
    flags = set(re.search(r"^flags\s*:(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M).group(1).split())
    needed = {"portable": set(), "avx2": {"avx2", "fma"}, "avx512": {"avx512f", "avx512bw"}, "amx": {"amx_tile", "amx_bf16"}}
    return [isa for isa in ISAS if needed[isa] <= flags]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--models", default="", help="a regular expression that their names match")
    parser.add_argument("--isas", default=",".join(isas_here()))
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    models = []
    for folder in ("models", "quant_models"):
        for model in sorted((ROOT / "tests/goldens" / folder).iterdir()):
            if re.search(args.models, model.name):
                models.append(model)
    isas = args.isas.split(",")
    problems, num_answered = [], 0
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        folder = pathlib.Path(name)
        (folder / "requests").write_text(requests())
        cases = [(model, isa) for model in models for isa in isas]
        for found, answered in pool.map(lambda case: compare(args, *case, folder), cases):
            problems += found
            num_answered += answered
            for problem in found:
                print(problem, flush=True)
    print(f"same_bits: {len(models)} models, {', '.join(isas)}, {len(WAYS)} ways: {num_answered} of {len(cases) * len(WAYS)} runs "
          f"answered, {len(problems)} differences")
    return 1 if problems or num_answered == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
