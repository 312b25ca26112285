#!/usr/bin/env python3
"""One engine of grammars.py: reads schemas of MaskBench as lines, answers a line of JSON for each.

    grammars_worker.py llguidance|xgrammar TOKENIZER.json
"""
import json
import sys
import time


class LlGuidance:
    def __init__(self, tokenizer, vocab_size):
        import llguidance
        import llguidance.numpy

        self.lib = llguidance
        self.tokenizer = llguidance.LLTokenizer(tokenizer.to_str(), n_vocab=vocab_size, eos_token=vocab_size - 1)
        self.row = llguidance.numpy.allocate_token_bitmask(1, vocab_size)
        self.pointer, self.num_bytes = self.row.ctypes.data, self.row.size * self.row.itemsize

    def compile(self, schema):
        matcher = self.lib.LLMatcher(self.tokenizer, self.lib.LLMatcher.grammar_from_json_schema(schema))
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def start(self, compiled):
        return compiled.deep_copy()

    def fill(self, matcher):
        matcher.unsafe_compute_mask_ptr(self.pointer, self.num_bytes)

    def take(self, matcher, token):
        return matcher.consume_token(token)

    def is_complete(self, matcher):
        return matcher.is_accepting()


class XGrammar:
    def __init__(self, tokenizer, vocab_size):
        import transformers
        import xgrammar

        self.lib = xgrammar
        fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer)
        info = xgrammar.TokenizerInfo.from_huggingface(fast, vocab_size=vocab_size,
                                                       stop_token_ids=[vocab_size - 1])
        self.stop = vocab_size - 1
        # One compiler for all schemas, so that they share masks, as the schemas of one server do.
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1)
        mask = xgrammar.allocate_token_bitmask(1, vocab_size)
        self.mask, self.row = mask, mask.numpy()

    def compile(self, schema):
        # XGrammar's documentation says that this treats absent additionalProperties as the standard does.
        return self.compiler.compile_json_schema(schema, strict_mode=False)

    def start(self, compiled):
        return self.lib.GrammarMatcher(compiled)

    def fill(self, matcher):
        if not matcher.fill_next_token_bitmask(self.mask):
            self.mask.fill_(-1)

    def take(self, matcher, token):
        return matcher.accept_token(token)

    def is_complete(self, matcher):
        if matcher.is_terminated():
            return True
        self.fill(matcher)
        return bool(self.row[0, self.stop // 32] >> (self.stop % 32) & 1)


def judge(engine, compiled, tokens, mask_us):
    matcher = engine.start(compiled)
    for token in tokens:
        start = time.perf_counter()
        engine.fill(matcher)
        is_taken = bool(engine.row[0, token // 32] >> (token % 32) & 1) and engine.take(matcher, token)
        mask_us.append((time.perf_counter() - start) * 1e6)
        if not is_taken:
            return False
    return engine.is_complete(matcher)


def answer(engine, tokenizer, entry):
    out = {"error": "", "compile_ms": 0, "mask_us": [], "false_accepts": 0, "false_rejects": 0}
    try:
        schema = json.dumps(entry["schema"])
        start = time.perf_counter()
        compiled = engine.compile(schema)
        out["compile_ms"] = (time.perf_counter() - start) * 1e3
    except Exception as error:  # each engine raises its own types
        out["error"] = str(error)[:300] or type(error).__name__
        return out
    for test in entry["tests"]:
        tokens = tokenizer.encode(json.dumps(test["data"], ensure_ascii=False), add_special_tokens=False).ids
        accepted = judge(engine, compiled, tokens, out["mask_us"])
        if accepted != test["valid"]:
            out["false_rejects" if test["valid"] else "false_accepts"] += 1
    return out


def main():
    import tokenizers

    name, path = sys.argv[1:3]
    tokenizer = tokenizers.Tokenizer.from_file(path)
    tokenizer.add_special_tokens(["<|the end of a text of the benchmark|>"])  # instances never contain it
    engine = {"llguidance": LlGuidance, "xgrammar": XGrammar}[name](tokenizer, tokenizer.get_vocab_size())
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(engine, tokenizer, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
