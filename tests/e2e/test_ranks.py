"""Several ranks of one model: every answer is the one that a single rank gives, bit for bit."""
import concurrent.futures

import harness
from command import run
from process import Server

PROMPTS = ["Once upon a time", "The sun", "A dog named Max went to the park because", "x" * 300]


def answers(binary, *flags):
    with Server(binary, *flags) as server:
        context = harness.Context(server.url, "none", server.process.pid)
        context.wait_ready(60)

        def ask(i):
            body = {"model": context.model, "prompt": PROMPTS[i % len(PROMPTS)], "max_tokens": 24, "seed": i,
                    "temperature": 0.0 if i % 2 else 1.0, "logprobs": 4, "ignore_eos": True}
            choice = context.post("/v1/completions", body)["choices"][0]
            return choice["text"], choice["logprobs"]["token_logprobs"], choice["logprobs"]["top_logprobs"]

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            return list(pool.map(ask, range(16)))


def test_answers_of_several_ranks_are_those_of_one(binary):
    one = answers(binary, "--threads", "1")
    for num_ranks in ("2", "4"):
        assert answers(binary, "--tensor-parallel-size", num_ranks) == one, num_ranks


def test_numbers_of_ranks_that_cannot_be(binary):
    for said, number in (("in [1, 64]", "0"), ("in [1, 64]", "65"), ("heads", "64")):
        done = run(binary, "generate", "-p", "x", "--tensor-parallel-size", number)
        assert done.returncode == 1 and "--tensor-parallel-size" in done.stderr and said in done.stderr, done
