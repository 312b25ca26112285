"""Several engines behind one port (data parallel) and stages of one model (pipeline parallel)."""
import concurrent.futures
import json
import re
import time

import harness
from command import run
from process import Server
from test_ranks import answers, ask_all


def context_of(server):
    context = harness.Context(server.url, "none", server.process.pid)
    context.wait_ready(60)
    return context


def by_engine(context, name):
    """Returns the values of a metric by engine."""
    text = context.request("GET", "/metrics")[2]
    found = re.findall(rf'^{re.escape(name)}\{{[^}}]*engine="(\d+)"[^}}]*\}} (\S+)$', text, re.M)
    return {int(engine): float(value) for engine, value in found}


def test_engines_of_one_process_give_the_bits_of_one(binary):
    want = answers(binary, "--threads", "1")
    with Server(binary, "--data-parallel-size", "2", "--threads", "2") as server:
        assert ask_all(server) == want
        context = context_of(server)
        counts = by_engine(context, "vllm:prompt_tokens_total")
        assert set(counts) == {0, 1} and all(counts.values()), counts
        assert sum(by_engine(context, "vllm:generation_tokens_total").values()) == 16 * 24
        families = re.findall(r"^# TYPE (\S+)", context.request("GET", "/metrics")[2], re.M)
        assert len(families) == len(set(families)), "a family of metrics is there twice"
        stats = context.get("/quire/stats")
        assert stats["requests_total"] == 16 and stats["running"] == 0, stats
    for flags in (("--pipeline-parallel-size", "2"), ("--pipeline-parallel-size", "3", "--threads", "3"),
                  ("-pp", "2", "-tp", "2", "-dp", "2")):
        assert answers(binary, *flags) == want, flags


def test_drafts_and_masks_in_a_pipeline(binary):
    speculation = ("--speculative-config", '{"method": "suffix"}')
    want = answers(binary, "--threads", "1", *speculation)
    assert answers(binary, "-pp", "2", *speculation) == want
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
    with Server(binary, "-pp", "2") as server:
        context = context_of(server)
        body = {"model": context.model, "prompt": "Once", "max_tokens": 40, "structured_outputs": {"json": schema}}
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for answer in pool.map(lambda _: context.post("/v1/completions", body), range(8)):
                text = answer["choices"][0]["text"]
                assert answer["choices"][0]["finish_reason"] == "length" or "a" in json.loads(text), answer
        context.wait_idle()


def test_prompts_that_begin_alike_go_to_one_engine(binary):
    with Server(binary, "--data-parallel-size", "3", "--threads", "3") as server:
        context = context_of(server)
        for turn in range(4):
            for family in range(3):
                context.post("/v1/completions", {"model": context.model, "max_tokens": 1,
                                                 "prompt": f"{family} and " * 60 + f"then {turn}"})
        hits = sum(by_engine(context, "vllm:prefix_cache_hits_total").values())
        queries = sum(by_engine(context, "vllm:prefix_cache_queries_total").values())
        assert hits > 0.6 * queries, (hits, queries)


def test_weights_of_engines_are_there_once(binary):
    def memory(*flags):
        with Server(binary, "--shape", "qwen2.5-0.5b", "--max-model-len", "512", "--max-num-batched-tokens", "128",
                    "--max-num-seqs", "4", "--hardware", "none", *flags) as server:
            return context_of(server).rss_mib()

    one = memory("--threads", "1", "--kv-cache-memory", "64MiB")
    three = memory("--threads", "1", "--kv-cache-memory", "192MiB", "--data-parallel-size", "3")
    assert three - one < 0.5 * one, f"one engine takes {one:.0f} MiB, three take {three:.0f}"


def test_a_drain_finishes_what_runs_on_all_engines(binary):
    for flags in (("-dp", "2"), ("-pp", "2")):
        with Server(binary, *flags) as server:
            context = context_of(server)

            def ask(i):
                return context.post("/v1/completions", {"model": context.model, "prompt": f"{i} once", "max_tokens": 200,  # noqa: B023
                                                        "ignore_eos": True})["usage"]["completion_tokens"]

            with concurrent.futures.ThreadPoolExecutor(6) as pool:
                asked = [pool.submit(ask, i) for i in range(6)]
                end = time.time() + 20
                while context.get("/quire/stats")["requests_total"] < 6 and time.time() < end:
                    time.sleep(0.01)
                server.terminate()
                assert [done.result() for done in asked] == [200] * 6
            assert server.wait(20) == 0


def test_sizes_of_fleets_that_cannot_be(binary):
    for said, *flags in (("--data-parallel-size", "--data-parallel-size", "0"),
                         ("--pin-threads", "--data-parallel-size", "2", "--pin-threads"),
                         ("--data-parallel-size", "--data-parallel-size", "2", "--nnodes", "2", "--master-addr", "x"),
                         ("--pipeline-parallel-size", "--pipeline-parallel-size", "3", "--nnodes", "2", "--master-addr", "x"),
                         ("--tensor-parallel-size", "--pipeline-parallel-size", "2", "--tensor-parallel-size", "2", "--nnodes", "2", "--master-addr", "x"),
                         ("layers", "--pipeline-parallel-size", "60")):
        done = run(binary, "generate", "-p", "x", *flags)
        assert done.returncode == 1 and said in done.stderr, (flags, done)
