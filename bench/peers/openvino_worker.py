"""Times one case in OpenVINO GenAI and prints one JSON line: {"tokens_per_s": …}.

    openvino_worker.py MODEL.gguf '{"kind": "decode", "context": 512, "batch": 1, "tokens": 32}' THREADS
"""
import json
import sys

import numpy as np
import openvino
import openvino_genai


def prompt(seed, length):
    """Returns pseudo-random ids, different for each seed, because the prefix cache would have a prompt that was
    used before."""
    ids = np.random.default_rng(seed).integers(300, 30000, (1, length)).astype(np.int64)
    return openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(np.ones_like(ids)))


def main():
    path, case, threads = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
    if case["batch"] != 1:
        raise SystemExit(f"expected a batch of 1, got {case['batch']}")
    pipeline = openvino_genai.LLMPipeline(path, "CPU", INFERENCE_NUM_THREADS=threads)
    config = openvino_genai.GenerationConfig()
    config.do_sample = False
    config.ignore_eos = True
    config.max_new_tokens = case["tokens"] + 1
    pipeline.generate(prompt(0, case["context"]), config)  # warm-up
    metrics = pipeline.generate(prompt(1, case["context"]), config).perf_metrics
    if case["kind"] == "prefill":
        speed = 1000 * case["context"] / metrics.get_ttft().mean
    else:
        speed = 1000 / metrics.get_tpot().mean
    print(json.dumps({"tokens_per_s": speed}))


main()
