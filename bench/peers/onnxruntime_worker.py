"""Times one case in ONNX Runtime GenAI and prints one JSON line: {"tokens_per_s": …}.

    onnxruntime_worker.py MODEL_FOLDER '{"kind": "decode", "context": 512, "batch": 1, "tokens": 32}' THREADS
"""
import json
import sys
import time

import numpy as np
import onnxruntime_genai


def measure(model, case, seed):
    """Returns the tokens per second of one run. The prompt is pseudo-random, the answer greedy."""
    parameters = onnxruntime_genai.GeneratorParams(model)
    parameters.set_search_options(do_sample=False, max_length=case["context"] + case["tokens"] + 2,
                                  min_length=case["context"] + case["tokens"] + 2)
    generator = onnxruntime_genai.Generator(model, parameters)
    ids = np.random.default_rng(seed).integers(300, 30000, case["context"]).astype(np.int32)
    start = time.perf_counter()
    generator.append_tokens(ids)
    generator.generate_next_token()
    if case["kind"] == "prefill":
        return case["context"] / (time.perf_counter() - start)
    start = time.perf_counter()
    for _ in range(case["tokens"]):
        generator.generate_next_token()
    return case["tokens"] / (time.perf_counter() - start)


def main():
    path, case, threads = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
    if case["batch"] != 1:
        raise SystemExit(f"expected a batch of 1, got {case['batch']}")
    config = onnxruntime_genai.Config(path)
    session = {"model": {"decoder": {"session_options": {"intra_op_num_threads": threads}}}}
    config.overlay(json.dumps(session))
    model = onnxruntime_genai.Model(config)
    measure(model, case, 0)  # warm-up
    print(json.dumps({"tokens_per_s": measure(model, case, 1)}))


main()
