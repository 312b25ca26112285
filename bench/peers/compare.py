#!/usr/bin/env python3
"""Quire beside another engine on this machine: the same model, the same case, in turns.

    bench/peers/run [--shape llama-3.2-1b] [--types bf16,q8_0,q4_0,int8] [--cases decode,…] [--rounds 3]
    bench/peers/run --shape qwen3-30b-a3b-4l --types bf16,q4_0 --cases decode,prefill-512,parallel-16
    bench/peers/run --shape gpt-oss-20b-2l --types mxfp4 --cases decode,prefill-512
    bench/peers/run --peer vllm --types bf16,int8
    bench/peers/run --peer openvino --model FILE.gguf --cases decode,prefill-512
    bench/peers/run --peer onnxruntime --model FILE.gguf --onnx FOLDER --cases decode,prefill-512

llama.cpp runs the GGUF file that Quire runs; vLLM (bf16 and int8) makes random weights from a config.json of that shape.
OpenVINO GenAI runs a real GGUF file, as it wants a real tokenizer in it, and ONNX Runtime GenAI a folder that was made of
the same model by `python -m onnxruntime_genai.models.builder -i MODEL -o FOLDER -p int4 -e cpu` (blocks of 32, as in q4_0
and q4_1). Both run batches of one here.

Type int8 is Quire with int8 weights and activations (--shape-weights int8) beside llama.cpp with the q8_0 file, which it
also multiplies by activations of 8 bits: the same bits per weight, each in the format it is best at. Beside vLLM both have
int8 weights with a scale per output and int8 activations with a scale per row (W8A8), vLLM's head stays bf16.

Prints per case the median tokens/s of both and the median of the ratios of neighbouring runs: on a shared machine the
ratio is what counts. Each single run is kept in build/peers/results as soon as it has ended, with the binary it ran, so
that an interrupted comparison goes on where it was (--fresh starts over) and --max-seconds cuts a long one in pieces.
Models are kept in build/peers/models (remove them when done).
"""
import argparse
import hashlib
import json
import os
import re
import statistics
import subprocess
import sys
import time

import random_gguf

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODELS = os.path.join(ROOT, "build/peers/models")
RESULTS = os.path.join(ROOT, "build/peers/results")
PEERS = ("llama.cpp", "vllm", "openvino", "onnxruntime")
TYPES = (*random_gguf.TYPES, "int8")
FILE_TYPE = "file"  # the type that the given model file has
CASES = {
    "decode": {"kind": "decode", "context": 128, "batch": 1, "tokens": 48},
    "decode-4096": {"kind": "decode", "context": 4096, "batch": 1, "tokens": 16},
    "prefill-512": {"kind": "prefill", "context": 512, "batch": 1, "tokens": 1},
    "prefill-2048": {"kind": "prefill", "context": 2048, "batch": 1, "tokens": 1},
    "parallel-16": {"kind": "decode", "context": 128, "batch": 16, "tokens": 24},
    "parallel-32": {"kind": "decode", "context": 128, "batch": 32, "tokens": 12},
}


def file_of(args, kind):
    """Returns the GGUF file that both engines run."""
    if args.model:
        return args.model
    return os.path.join(MODELS, f"{args.shape}-{'q8_0' if kind == 'int8' else kind}.gguf")


def model_flags(args, kind):
    """Returns the flags that name the model for Quire."""
    if kind == "int8":
        return ["--shape", args.shape, "--shape-weights", "int8"]
    return ["--shape", args.shape] if args.peer == "vllm" else [file_of(args, kind)]


def run_quire(binary, model, case, threads):
    """Returns the tokens per second of one `quire bench latency` run."""
    output_len = 2 if case["kind"] == "prefill" else case["tokens"] + 1
    command = [binary, "bench", "latency", *model, "--input-len", str(case["context"]), "--output-len", str(output_len),
               "--batch-size", str(case["batch"]), "--num-iters", "1", "--threads", str(threads),
               "--max-num-batched-tokens", "2048"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    line = re.search(rf"^{case['kind']} .*?([\d.]+) tokens/s", done.stdout, re.M)
    return float(line.group(1))


def run_worker(name, python, model, case, threads, environment=None):
    worker = os.path.join(ROOT, "bench/peers", f"{name}_worker.py")
    done = subprocess.run([python, worker, model, json.dumps(case), str(threads)], capture_output=True, text=True,
                          env={**os.environ, **(environment or {})})
    if done.returncode != 0:
        sys.exit(f"{name}: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout.splitlines()[-1])["tokens_per_s"]


def run_peer(args, kind, case):
    if args.peer == "llama.cpp":
        return run_worker("llama_cpp", sys.executable, file_of(args, kind), case, args.threads)
    if args.peer in ("openvino", "onnxruntime"):
        model = args.onnx if args.peer == "onnxruntime" else args.model
        return run_worker(args.peer, os.path.join(ROOT, "build/peers-genai/bin/python"), model, case, args.threads)
    venv = os.path.join(ROOT, "build/peers-vllm")
    preload = [path for path in (os.path.join(venv, "lib/libiomp5.so"),
                                 "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4") if os.path.exists(path)]
    return run_worker("vllm", os.path.join(venv, "bin/python"), config_of(args, kind), case, args.threads,
                      {"LD_PRELOAD": ":".join(preload)})


def int8_quantization():
    """Returns the quantization_config of compressed-tensors for W8A8: one scale per output, and one per row of
    activations."""
    eight_bits = {"num_bits": 8, "type": "int", "symmetric": True}
    return {"quant_method": "compressed-tensors", "format": "int-quantized", "quantization_status": "compressed",
            "ignore": ["lm_head"],
            "config_groups": {"group_0": {
                "targets": ["Linear"],
                "weights": {**eight_bits, "strategy": "channel", "dynamic": False},
                "input_activations": {**eight_bits, "strategy": "token", "dynamic": True}}}}


def config_of(args, kind):
    """Returns a folder with the config.json of the shape."""
    shape = random_gguf.SHAPES[args.shape]
    folder = os.path.join(MODELS, f"{args.shape}-{kind}")
    os.makedirs(folder, exist_ok=True)
    name = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM"}[shape.architecture]
    config = {"architectures": [name], "model_type": shape.architecture, "hidden_size": shape.hidden,
              "intermediate_size": shape.ffn, "num_hidden_layers": shape.layers, "hidden_act": "silu",
              "num_attention_heads": shape.heads, "num_key_value_heads": shape.kv_heads,
              "head_dim": shape.head_dim, "vocab_size": shape.vocab, "max_position_embeddings": 8192,
              "rms_norm_eps": 1e-5, "rope_theta": shape.rope_base, "tie_word_embeddings": True,
              "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2}
    if kind == "int8":
        config["quantization_config"] = int8_quantization()
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    return folder


def model_name(args):
    return os.path.splitext(os.path.basename(args.model))[0] if args.model else args.shape


class Results:
    """Stores the runs that have ended, one JSON object per line. Only those of this binary, shape and number of threads
    are read."""

    def __init__(self, args):
        with open(args.binary, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()[:16]
        os.makedirs(RESULTS, exist_ok=True)
        self.path = os.path.join(RESULTS, f"{model_name(args)}-{args.threads}-{digest}.jsonl")
        self.runs = {}
        if args.fresh and os.path.exists(self.path):
            os.remove(self.path)
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as file:
                for line in file:
                    self._take(json.loads(line))

    def _take(self, run):
        self.runs.setdefault((run["type"], run["case"], run["engine"]), []).append(run["tokens_per_s"])

    def of(self, kind, case, engine):
        return self.runs.get((kind, case, engine), [])

    def add(self, kind, case, engine, tokens_per_s):
        run = {"type": kind, "case": case, "engine": engine, "tokens_per_s": tokens_per_s}
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(run) + "\n")
        self._take(run)


def missing_runs(results, args):
    """Yields (type, case, engine) of the runs that are missing, alternating between the engines."""
    for kind in args.types.split(","):
        for case in args.cases.split(","):
            engines = ("quire", args.peer)
            have = {engine: len(results.of(kind, case, engine)) for engine in engines}
            for number in range(args.rounds):
                for engine in engines:
                    if have[engine] <= number:
                        yield kind, case, engine


def measure(results, args):
    """Does the missing runs, and returns False if the time was over before the end."""
    start = time.monotonic()
    longest = 0.0
    todo = list(missing_runs(results, args))
    for number, (kind, case, engine) in enumerate(todo):
        begin = time.monotonic()
        if args.max_seconds and number > 0 and begin - start + longest > args.max_seconds:
            print(f"{len(todo) - number} runs are left: the same command goes on with them", file=sys.stderr)
            return False
        print(f"run {number + 1} of {len(todo)}: {kind} {case} {engine}", file=sys.stderr, flush=True)
        speed = (run_quire(args.binary, model_flags(args, kind), CASES[case], args.threads) if engine == "quire" else
                 run_peer(args, kind, CASES[case]))
        results.add(kind, case, engine, speed)
        longest = max(longest, time.monotonic() - begin)
    return True


def print_table(results, args):
    print(f"{'type':6} {'case':14} {'quire':>10} {args.peer:>10} {'ratio':>7} {'runs':>5}   (tokens/s, "
          f"{args.threads} threads, medians)")
    for kind in args.types.split(","):
        for case in args.cases.split(","):
            pairs = list(zip(*(results.of(kind, case, engine)[:args.rounds] for engine in ("quire", args.peer))))
            if not pairs:
                continue
            ours, theirs = (statistics.median(side) for side in zip(*pairs))
            ratio = statistics.median(a / b for a, b in pairs)
            print(f"{kind:6} {case:14} {ours:10.1f} {theirs:10.1f} {ratio:6.2f}x {len(pairs):5}", flush=True)


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(ROOT, "build/release/quire"), help="default: built first")
    parser.add_argument("--shape", default="llama-3.2-1b", choices=sorted(random_gguf.SHAPES))
    parser.add_argument("--peer", default="llama.cpp", choices=PEERS)
    parser.add_argument("--model", help="a GGUF file instead of a shape")
    parser.add_argument("--onnx", help="the same model as a folder of ONNX Runtime GenAI")
    parser.add_argument("--types", default="bf16,q8_0,q4_0,int8", help=",".join(TYPES))
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--max-seconds", type=float, default=0, help="start no run that would probably end later")
    parser.add_argument("--prepare", action="store_true", help="only make the models")
    parser.add_argument("--summary", action="store_true", help="run nothing: the table of what was run before")
    parser.add_argument("--fresh", action="store_true", help="forget earlier runs of this binary")
    args = parser.parse_args()
    if args.model:
        args.types = FILE_TYPE
    for given, known in ((args.types, (*TYPES, FILE_TYPE)), (args.cases, CASES)):
        for name in given.split(","):
            if name not in known:
                parser.error(f"expected some of {', '.join(known)}, got '{name}'")
    if args.peer == "vllm" and random_gguf.SHAPES[args.shape].experts > 0:
        parser.error(f"expected a --shape without experts beside --peer vllm, got {args.shape}")
    if args.peer == "vllm" and not set(args.types.split(",")) <= {"bf16", "int8"}:
        parser.error("expected --types bf16,int8 beside --peer vllm")
    if args.peer in ("openvino", "onnxruntime") and not args.model:
        parser.error(f"expected --model FILE.gguf beside --peer {args.peer}")
    if args.peer == "onnxruntime" and not args.onnx:
        parser.error("expected --onnx FOLDER beside --peer onnxruntime")
    return args


def main():
    args = parse_args()
    if not args.summary:
        os.makedirs(MODELS, exist_ok=True)
        for kind in args.types.split(",") if not args.model and args.peer == "llama.cpp" else ():
            random_gguf.write(file_of(args, kind), random_gguf.SHAPES[args.shape], "q8_0" if kind == "int8" else kind)
        if args.prepare:
            return
    results = Results(args)
    done = args.summary or measure(results, args)
    print_table(results, args)
    sys.exit(0 if done else 3)


main()
