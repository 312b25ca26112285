"""Drafts, whoever makes them: every answer is the one without, bit for bit."""
import concurrent.futures
import json
import os
import tempfile

import draft_heads
import harness
from command import MODEL, ROOT, run
from process import Server

PROMPTS = ["Once upon a time", "one two three four one two three four one two", "A dog named Max", "x y " * 60]
STATES = os.path.join(ROOT, "tests", "goldens", "models", "lfm2")
DRAFTERS = {
    "suffix": {"method": "suffix"},
    "every suffix": {"method": "suffix", "enable_adaptive_verification": False},
    "ngram": {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 1, "prompt_lookup_max": 3,
              "enable_adaptive_verification": False},
    "self": {"method": "self", "num_hidden_layers": 3, "num_speculative_tokens": 3,
             "enable_adaptive_verification": False},
    "copy": {"method": "self", "num_speculative_tokens": 3, "enable_adaptive_verification": False},
    "draft model": {"method": "draft_model", "model": MODEL, "num_speculative_tokens": 4,
                    "enable_adaptive_verification": False},
}


def answers(binary, *flags):
    with Server(binary, "--per-request-spec-decode-metrics", "summary", *flags) as server:
        context = harness.Context(server.url, "none", server.process.pid)
        context.wait_ready(60)
        num_drafts = num_accepted = 0

        def ask(i):
            body = {"model": context.model, "prompt": PROMPTS[i % len(PROMPTS)], "max_tokens": 40, "seed": i,
                    "temperature": 0.0 if i % 2 else 0.8, "logprobs": 4, "ignore_eos": True,
                    "repetition_penalty": 1.1 if i % 3 == 0 else 1.0}
            return context.post("/v1/completions", body)

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            replies = list(pool.map(ask, range(16)))
        for reply in replies:
            counts = reply["metrics"]["speculative_decoding"]
            num_drafts += counts["num_draft_tokens"]
            num_accepted += counts["num_accepted_draft_tokens"]
        choices = [reply["choices"][0] for reply in replies]
        return [(c["text"], c["logprobs"]["token_logprobs"], c["finish_reason"]) for c in choices], num_drafts, num_accepted


def test_answers_with_drafts_are_those_without(binary):
    without, num_drafts, _ = answers(binary, "--speculative-config", "none")
    assert num_drafts == 0
    assert answers(binary)[0] == without
    for name, config in DRAFTERS.items():
        got, num_drafts, num_accepted = answers(binary, "--speculative-config", json.dumps(config))
        assert got == without, name
        if not config.get("enable_adaptive_verification", True):
            assert num_drafts > 0, name
        if name == "draft model":  # the model itself: always right, at any temperature
            assert num_accepted == num_drafts, (num_accepted, num_drafts)


def test_answers_with_drafts_of_hidden_states_are_those_without(binary):
    without, _, _ = answers(binary, "--speculative-config", "none")
    with tempfile.TemporaryDirectory() as folder:
        for method in ("medusa", "eagle", "eagle3"):
            head = getattr(draft_heads, method)(os.path.join(folder, method))
            config = {"method": method, "model": head, "num_speculative_tokens": 3,
                      "enable_adaptive_verification": False}
            # Tests a prefix that is in the cache, prompts in chunks, and so little KV that requests
            # are preempted.
            for flags in ((), ("--max-num-batched-tokens", "32", "--max-model-len", "512", "--num-gpu-blocks-override",
                               "40")):
                got, num_drafts, _ = answers(binary, "--speculative-config", json.dumps(config), *flags)
                assert got == without, (method, flags)
                assert num_drafts > 0, (method, flags)


def test_who_drafts_where_nobody_says(binary):
    """The default is the suffix drafter, except for layers with states and for stages that run at the same time."""
    def log_of(*flags):
        with Server(binary, *flags) as server:
            return server.output()

    said = "up to 24 drafts a step"
    assert said in log_of()
    assert said in log_of("--speculative-config", '{"method": "suffix"}')
    assert said not in log_of("--speculative-config", "none")
    assert said not in log_of("--pipeline-parallel-size", "2")
    assert said not in log_of(STATES)


def test_drafters_that_cannot_be(binary):
    for said, config in (("num_hidden_layers", {"method": "self", "num_hidden_layers": 99, "num_speculative_tokens": 2}),
                         ("no/such", {"method": "draft_model", "model": "no/such", "num_speculative_tokens": 2}),
                         ("model: expected the path", {"method": "eagle3"}),
                         ("served model's files", {"method": "mtp", "model": "x"}),
                         ("mtp.fc.weight", {"method": "deepseek_mtp"})):
        done = run(binary, "generate", "-p", "x", "--speculative-config", json.dumps(config))
        assert done.returncode == 1 and said in done.stderr, done
