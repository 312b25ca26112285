"""Times one case in llama.cpp through its C API and prints one JSON line: {"tokens_per_s": …}.

    llama_cpp_worker.py MODEL.gguf '{"kind": "decode", "context": 4096, "batch": 1, "tokens": 32}' THREADS
"""
import ctypes
import json
import sys
import time

import llama_cpp


class Engine:
    """Holds one context. Token ids are pseudo-random, nothing is sampled, and only the logits of the last row are
    computed.

    Each sequence has cells of its own (kv_unified off), and flash attention is on for prefill and off for decode, which
    measured best for llama.cpp on CPUs.
    """

    def __init__(self, path, threads, sequences, tokens_per_sequence, is_prefill):
        llama_cpp.llama_backend_init()
        self.quiet = llama_cpp.llama_log_callback(lambda level, text, data: None)
        llama_cpp.llama_log_set(self.quiet, ctypes.c_void_p(0))
        self.model = llama_cpp.llama_model_load_from_file(
            path.encode(), llama_cpp.llama_model_default_params())
        if not self.model:
            raise SystemExit(f"llama.cpp cannot load {path}")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = sequences * -(-tokens_per_sequence // 256) * 256
        params.n_batch = 2048
        params.n_ubatch = 512
        params.n_seq_max = sequences
        params.n_threads = params.n_threads_batch = threads
        params.kv_unified = False
        params.flash_attn_type = 1 if is_prefill else 0
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        if not self.context:
            raise SystemExit("llama.cpp cannot make a context")
        vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.vocab_size = llama_cpp.llama_vocab_n_tokens(vocab)
        self.batch = llama_cpp.llama_batch_init(2048, 0, 1)
        self.state = 1

    def token(self):
        self.state = (self.state * 1103515245 + 12345) & 0x7FFFFFFF
        return 300 + self.state % (self.vocab_size - 300)

    def run(self, rows):
        """Runs one llama_decode of rows (sequence, position, wants logits), at most 2048."""
        self.batch.n_tokens = len(rows)
        for i, (sequence, position, logits) in enumerate(rows):
            self.batch.token[i] = self.token()
            self.batch.pos[i] = position
            self.batch.n_seq_id[i] = 1
            self.batch.seq_id[i][0] = sequence
            self.batch.logits[i] = 1 if logits else 0
        if llama_cpp.llama_decode(self.context, self.batch) != 0:
            raise SystemExit("llama_decode failed")
        llama_cpp.llama_synchronize(self.context)

    def prompt(self, sequence, length):
        for begin in range(0, length, 2048):
            end = min(length, begin + 2048)
            self.run([(sequence, p, p == length - 1) for p in range(begin, end)])

    def copy_prompt(self, sequences):
        """Copies the cells of sequence 0 to all others, so that only one prompt has to be computed. Decoding costs
        the same."""
        memory = llama_cpp.llama_get_memory(self.context)
        for sequence in range(1, sequences):
            llama_cpp.llama_memory_seq_cp(memory, 0, sequence, -1, -1)

    def clear(self):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)


def measure(engine, case):
    batch, context, tokens = case["batch"], case["context"], case["tokens"]
    if case["kind"] == "prefill":
        engine.prompt(0, 32)  # warm-up
        engine.clear()
        start = time.perf_counter()
        for sequence in range(batch):
            engine.prompt(sequence, context)
        return batch * context / (time.perf_counter() - start)
    engine.prompt(0, context)
    engine.copy_prompt(batch)
    engine.run([(s, context, True) for s in range(batch)])  # warm-up
    start = time.perf_counter()
    for step in range(1, tokens + 1):
        engine.run([(s, context + step, True) for s in range(batch)])
    return batch * tokens / (time.perf_counter() - start)


def main():
    path, case, threads = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
    engine = Engine(path, threads, case["batch"], case["context"] + case["tokens"] + 2, case["kind"] == "prefill")
    print(json.dumps({"tokens_per_s": measure(engine, case)}))


main()
