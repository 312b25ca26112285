"""Prefill on one server, decode on another one, and files of KV between them."""
import concurrent.futures
import glob
import json
import os
import random
import tempfile
import time

import harness
from command import refused
from process import Server
from test_kv_files import FLAGS, PLAIN, PROMPT, ask, metric
from test_ranks import Ranks, free_port

CONNECTOR = {"kv_connector": "QuireConnector"}
PREFILL = {"do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None, "remote_block_ids": None,
           "remote_host": None, "remote_port": None}
CHUNKS = ("--max-num-batched-tokens", "64")


def transfer(role, **config):
    return "--kv-transfer-config", json.dumps({**CONNECTOR, "kv_role": role, **config})


def serve(binary, folder, role, *flags, **config):
    return Server(binary, *FLAGS, "--kv-cache-dir", folder, *transfer(role, **config), *flags)


def context_of(server):
    return harness.Context(server.url, "none", server.process.pid)


def complete(server, prompt=PROMPT, max_tokens=12, **fields):
    """Returns (status, answer) of a completion."""
    body = {"prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True, "logprobs": 3, "seed": 5, **fields}
    status, _, text = context_of(server).request("POST", "/v1/completions", body)
    return status, json.loads(text)


def said(answer):
    return [(choice["text"], choice["logprobs"]) for choice in answer["choices"]]


def prefill(server, prompt=PROMPT, **fields):
    status, answer = complete(server, prompt, 1, kv_transfer_params=PREFILL, **fields)
    assert status == 200, answer
    return answer["kv_transfer_params"]


ASKED = ({"temperature": 0}, {"temperature": 1}, {"temperature": 1, "n": 3}, {"temperature": 0, "n": 2},
         {"temperature": 0.8, "top_k": 7, "max_tokens": 40})


def test_answers_have_the_same_bits_as_without(binary):
    with tempfile.TemporaryDirectory() as folder, Server(binary, *PLAIN) as plain, \
            serve(binary, folder, "kv_producer", *CHUNKS) as producer, serve(binary, folder, "kv_consumer") as consumer:
        for i, fields in enumerate(ASKED):
            for length in (5, 100, 1 + 150 * i, len(PROMPT)):
                prompt = f"{i}: " + PROMPT[:length]
                want = complete(plain, prompt, **fields)
                params = prefill(producer, prompt)
                if params is not None:
                    assert params["do_remote_prefill"] and not params["do_remote_decode"], params
                    tokens = want[1]["usage"]["prompt_tokens"]
                    assert params["remote_num_tokens"] == (tokens - 1) // 16 * 16, (params, tokens)
                status, answer = complete(consumer, prompt, kv_transfer_params=params, **fields)
                assert status == 200 and said(answer) == said(want[1]), (prompt, answer, want)
                cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
                assert params is None or cached >= params["remote_num_tokens"], (cached, params)
        assert metric(producer.url, "quire:kv_handovers_total") >= 12
        assert metric(consumer.url, "quire:kv_takeovers_total") >= 12
        assert metric(consumer.url, "quire:kv_takeovers_failed_total") == 0
        # The first leg may be a stream, and a chat.
        messages = [{"role": "user", "content": PROMPT}]
        chat = {"messages": messages, "max_tokens": 1, "kv_transfer_params": PREFILL, "stream": True}
        _, _, text = context_of(producer).request("POST", "/v1/chat/completions", chat)
        assert text.count('"kv_transfer_params"') == 1, text
        for server in (producer, consumer):
            assert metric(server.url, "vllm:kv_cache_usage_perc") == 0


def test_what_is_forged_or_foreign_is_not_there(binary):
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other, \
            serve(binary, folder, "kv_producer") as producer, serve(binary, folder, "kv_consumer") as consumer, \
            serve(binary, other, "kv_both", kv_load_failure_policy="recompute") as recomputing:
        want = complete(producer, temperature=0)[1]
        params = prefill(producer)
        files = params["remote_files"]
        forged = [{"remote_engine_id": "quire-0000000000000000"},
                  {"remote_files": ["../../../../etc/passwd"]}, {"remote_files": [f"../{os.path.basename(folder)}/{files[0]}"]},
                  {"remote_files": ["key"]}, {"remote_files": [files[0].replace("-0.kv", "-1.kv")]},
                  {"remote_files": files * 100}, {"remote_files": ["0" * 16 + files[0][16:]]}]
        for wrong in forged:
            status, answer = complete(consumer, temperature=0, kv_transfer_params={**params, **wrong})
            assert status == 503 and "kv_transfer_params" in answer["error"]["message"], (wrong, answer)
        ask(consumer.url, "x", 1)  # its steps update the counters
        assert metric(consumer.url, "quire:kv_takeovers_failed_total") == len(forged)
        # The same words of another tenant are a different prompt.
        status, answer = complete(consumer, temperature=0, kv_transfer_params=params, cache_salt="another")
        assert status == 503, answer
        status, answer = complete(consumer, temperature=0, kv_transfer_params=params)
        assert status == 200 and said(answer) == said(want), answer
        # A server with other files computes the blocks that it does not have.
        status, answer = complete(recomputing, temperature=0, kv_transfer_params=params)
        assert status == 200 and said(answer) == said(want), answer
        assert metric(recomputing.url, "quire:kv_takeovers_failed_total") == 1
        for wrong in ({"do_remote_decode": True}, {"remote_files": 1}, {"remote_num_tokens": -1}, {"remote_engine_id": 7}):
            status, answer = complete(consumer, kv_transfer_params={**params, **wrong})
            assert status == 400 and answer["error"]["param"].startswith("kv_transfer_params"), (wrong, answer)
        status, answer = complete(consumer, ["a", "b"], kv_transfer_params=params)
        assert status == 400, answer
        assert complete(consumer, kv_transfer_params=PREFILL)[0] == 400
        assert complete(producer, kv_transfer_params=params)[0] == 400
        # A file is damaged without either server's knowledge.
        params = prefill(producer, "Another one. " + PROMPT)
        for name in params["remote_files"]:
            with open(os.path.join(folder, name), "r+b") as file:
                file.seek(-100, os.SEEK_END)
                file.write(b"x" * 100)
        status, answer = complete(consumer, "Another one. " + PROMPT, kv_transfer_params=params)
        assert status == 503, answer


def test_sides_may_have_other_blocks_ranks_and_stages(binary):
    prompts = [f"{i}: {PROMPT[:400 + 100 * i]}" for i in range(3)]
    with Server(binary, *PLAIN) as plain:
        want = [said(complete(plain, prompt, temperature=1)[1]) for prompt in prompts]
    for giving, taking in (((), ("-tp", "2", "--block-size", "32")), (("-tp", "2", "--block-size", "8"), ("-pp", "2"))):
        with tempfile.TemporaryDirectory() as folder, serve(binary, folder, "kv_producer", *CHUNKS, *giving) as producer, \
                serve(binary, folder, "kv_consumer", *taking) as consumer:
            for prompt, expected in zip(prompts, want):
                params = prefill(producer, prompt)
                status, answer = complete(consumer, prompt, temperature=1, kv_transfer_params=params)
                assert status == 200 and said(answer) == expected, (giving, taking, answer)
            assert metric(consumer.url, "quire:kv_takeovers_total") == len(prompts)


def test_a_rank_that_dies_leaves_the_other_side_to_its_policy(binary):
    """Ranks that are processes prefill, and one of them is killed while prompts are handed over."""
    flags = [flag for flag in FLAGS if flag not in ("--threads", "1")]
    with tempfile.TemporaryDirectory() as folder, serve(binary, folder, "kv_consumer") as consumer, \
            serve(binary, folder, "kv_consumer", kv_load_failure_policy="recompute") as recomputing, \
            Ranks(binary, 2, *flags, "--block-size", "32", "--kv-cache-dir", folder, *transfer("kv_producer")) as ranks:
        want = said(complete(recomputing, temperature=0)[1])
        params = prefill(ranks.server)
        status, answer = complete(consumer, temperature=0, kv_transfer_params=params)
        assert status == 200 and said(answer) == want, answer
        assert metric(consumer.url, "quire:kv_takeovers_total") == 1

        def first_leg(i):
            try:
                return complete(ranks.server, f"{i}: {PROMPT}", 1, kv_transfer_params=PREFILL)[1].get("kv_transfer_params")
            except (OSError, ValueError):
                return None
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            legs = [pool.submit(first_leg, i) for i in range(40)]
            time.sleep(0.1)
            ranks.others[0].kill()
            handed = [leg.result(30) for leg in legs]
        assert None in handed, "it was killed too late"
        for i in (0, 39):
            prompt = f"{i}: {PROMPT}"
            params = handed[i] or {**params, "remote_files": ["0" * 49 + params["remote_files"][0][49:]]}
            status, answer = complete(consumer, prompt, temperature=0, kv_transfer_params=params)
            assert status == (200 if handed[i] else 503), answer
            status, answer = complete(recomputing, prompt, temperature=0, kv_transfer_params=params)
            assert status == 200, answer
        for server in (consumer, recomputing):
            ask(server.url, "x", 1)
            assert metric(server.url, "vllm:kv_cache_usage_perc") == 0


def test_flags_say_what_was_expected(binary):
    def both(text, config, *flags):
        refused(binary, text, "generate", "-p", "x", *flags, "--kv-transfer-config", config)
    both("expected --kv-cache-dir", json.dumps({**CONNECTOR, "kv_role": "kv_both"}))
    both("expected QuireConnector", json.dumps({"kv_connector": "NixlConnector", "kv_role": "kv_both"}))
    both("kv_producer, kv_consumer or kv_both", json.dumps({**CONNECTOR, "kv_role": "both"}))
    both("expected a JSON object", "yes")


class Split:
    """Prefill servers, decode servers, and a gateway in front of them."""

    def __init__(self, binary, folder, prefill=1, decode=1, policy="fail"):
        self.binary, self.folder, self.policy = binary, folder, policy
        self.ports = {"kv_producer": [free_port() for _ in range(prefill)], "kv_consumer": [free_port() for _ in range(decode)]}
        self.servers = {port: self.start(role, port) for role, ports in self.ports.items() for port in ports}
        flags = [f for port in self.ports["kv_producer"] for f in ("--prefill-backend", f"http://127.0.0.1:{port}")]
        flags += [f for port in self.ports["kv_consumer"] for f in ("--backend", f"http://127.0.0.1:{port}")]
        self.gateway = Server(binary, *flags, "--health-interval-ms", "50", verb="route")
        self.wait_healthy()

    def start(self, role, port):
        return serve(self.binary, self.folder, role, "--port", str(port), kv_load_failure_policy=self.policy)

    def wait_healthy(self, seconds=60):
        end = time.time() + seconds
        while not all(b["healthy"] for b in context_of(self.gateway).get("/quire/backends")["backends"]):
            assert time.time() < end, self.gateway.output()
            time.sleep(0.02)

    def kill_and_restart(self, role, port):
        self.servers[port].process.kill()
        self.servers[port].process.wait(10)
        self.servers[port] = self.start(role, port)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.gateway.stop()
        for server in self.servers.values():
            server.stop()


def test_the_gateway_sends_prompts_to_prefill_first(binary):
    with tempfile.TemporaryDirectory() as folder, Server(binary, *PLAIN) as plain, Split(binary, folder) as split:
        for i, fields in enumerate(ASKED):
            prompt = f"{i}: {PROMPT}"
            assert said(complete(split.gateway, prompt, **fields)[1]) == said(complete(plain, prompt, **fields)[1])
        client, alone = context_of(split.gateway).client(), context_of(plain).client()
        chat = {"model": client.models.list().data[0].id, "messages": [{"role": "user", "content": PROMPT}],
                "max_tokens": 20, "temperature": 0}
        want = alone.chat.completions.create(**chat).choices[0].message.content
        assert client.chat.completions.create(**chat).choices[0].message.content == want
        stream = client.chat.completions.create(**chat, stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices) == want
        consumer = split.servers[split.ports["kv_consumer"][0]]
        assert metric(consumer.url, "quire:kv_takeovers_total") == len(ASKED) + 2
        assert metric(consumer.url, "quire:kv_takeovers_failed_total") == 0
        for prompt in (["a", "b"], [[1, 2], [3]]):  # such requests get only one leg
            assert said(complete(split.gateway, prompt)[1]) == said(complete(plain, prompt)[1])


def test_either_side_may_be_killed_at_any_time(binary, requests=1000):
    """No answer is lost or wrong: before the first byte the gateway asks other servers, and clients repeat requests that
    were cut off."""
    rng = random.Random(1)
    prompts = [f"{i}: " + PROMPT[:rng.randrange(40, len(PROMPT))] for i in range(100)]
    with Server(binary, *PLAIN) as plain:
        want = {prompt: said(complete(plain, prompt, 40, temperature=0)[1]) for prompt in prompts}
    with tempfile.TemporaryDirectory() as folder, Split(binary, folder, 2, 2, "recompute") as split:
        def one(prompt):
            for _ in range(50):
                try:
                    status, answer = complete(split.gateway, prompt, 40, temperature=0)
                except (OSError, ValueError):  # the answer was cut off
                    continue
                if status == 200:
                    return said(answer) == want[prompt]
                assert status in (502, 503), answer
                time.sleep(0.05)
            return False
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            answers = [pool.submit(one, rng.choice(prompts)) for _ in range(requests)]
            kills = 0
            while not all(answer.done() for answer in answers):
                role = rng.choice(("kv_producer", "kv_consumer"))
                split.kill_and_restart(role, rng.choice(split.ports[role]))
                kills += 1
                time.sleep(rng.random() * 0.3)
            assert all(answer.result() for answer in answers)
        assert kills > 10, kills
        split.wait_healthy()
        for server in split.servers.values():
            ask(server.url, "x", 1)
            assert metric(server.url, "vllm:kv_cache_usage_perc") == 0
        assert glob.glob(os.path.join(folder, "*.kv"))
        print(f"    {requests} requests, {kills} servers killed", flush=True)
