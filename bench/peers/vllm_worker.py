"""Times one case in vLLM's CPU build with random weights and prints one JSON line: {"tokens_per_s": …}.

    vllm_worker.py CONFIG_DIR '{"kind": "decode", "context": 128, "batch": 1, "tokens": 48}' THREADS

A decode is the time of a run with `tokens` more output tokens less that of a run with one.
"""
import json
import os
import statistics
import sys
import time


def set_environment(threads):
    """Sets what vLLM's documentation recommends for CPUs; vLLM reads these variables when it is imported."""
    os.environ["VLLM_CPU_OMP_THREADS_BIND"] = f"0-{threads - 1}"
    os.environ["VLLM_CPU_KVCACHE_SPACE"] = "2"
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    os.environ["VLLM_LOGGING_LEVEL"] = "ERROR"


def prompts(batch, length):
    return [{"prompt_token_ids": [300 + (7919 * (i + 1) + 104729 * (b + 1)) % 30000 for i in range(length)]}
            for b in range(batch)]


def seconds(llm, batch, context, tokens):
    from vllm import SamplingParams
    params = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)
    start = time.perf_counter()
    llm.generate(prompts(batch, context), params, use_tqdm=False)
    return time.perf_counter() - start


def measure(llm, case):
    batch, context, tokens = case["batch"], case["context"], case["tokens"]
    seconds(llm, 1, 32, 4)  # warm-up
    if case["kind"] == "prefill":
        return batch * context / statistics.median(seconds(llm, batch, context, 1) for _ in range(3))
    whole = statistics.median(seconds(llm, batch, context, tokens + 1) for _ in range(2))
    return batch * tokens / (whole - statistics.median(seconds(llm, batch, context, 1) for _ in range(2)))


def main():
    folder, case, threads = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
    set_environment(threads)
    from vllm import LLM
    llm = LLM(model=folder, load_format="dummy", dtype="bfloat16", skip_tokenizer_init=True, enable_prefix_caching=False,
              max_model_len=case["context"] + case["tokens"] + 16, max_num_batched_tokens=max(2048, case["context"] + 64),
              disable_log_stats=True)
    print(json.dumps({"tokens_per_s": measure(llm, case)}))


if __name__ == "__main__":
    main()
