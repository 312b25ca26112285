"""The vLLM router (package vllm-router), as it is, in front of three servers.

It lives in build/client-libraries (tools/requirements-client-libraries.txt); where it is not installed: SKIPPED.
"""
import json
import os
import re
import struct
import subprocess
import tempfile
import time

import harness
from process import Server
from test_client_libraries import PYTHON
from test_kv_files import FLAGS, PLAIN, PROMPT, metric
from test_prefill_decode import CHUNKS, complete, said, serve
from test_ranks import ask_all, free_port

ALONE = ("--hardware", "none", "--threads", "1")


class Router:
    def __init__(self, *flags):
        if not os.path.exists(PYTHON):
            raise harness.Skip(f"there is no {PYTHON} (./dev setup makes it)")
        if subprocess.run([PYTHON, "-c", "import vllm_router"], capture_output=True).returncode != 0:
            raise harness.Skip("the package vllm-router is not installed")
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.log = tempfile.TemporaryFile("w+")
        command = [PYTHON, "-m", "vllm_router.launch_router", *flags, "--port", str(port), "--prometheus-port",
                   str(free_port()), "--worker-startup-check-interval", "1"]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        self.context = harness.Context(self.url, "none", self.process.pid)
        self.wait_ready(60)

    def wait_ready(self, seconds):
        end = time.time() + seconds
        while True:
            try:
                if self.context.request("GET", "/v1/models", timeout=5)[0] == 200:
                    return
            except OSError:
                pass
            assert self.process.poll() is None and time.time() < end, self.output()
            time.sleep(0.1)

    def output(self):
        self.log.seek(0)
        return re.sub(r"\x1b\[[0-9;]*m", "", self.log.read())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)


class Servers:
    """Three servers; `flags_of(i)` are the flags of one."""

    def __init__(self, binary, flags_of=lambda i: ()):
        self.all = []
        try:
            for i in range(3):
                self.all.append(Server(binary, *ALONE, *flags_of(i)))
        except RuntimeError:
            self.__exit__()
            raise

    @property
    def urls(self):
        return [server.url for server in self.all]

    def metrics(self, name):
        return [metric(url, name) for url in self.urls]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in self.all:
            server.stop()


def in_float32(value):
    """Returns the value in float32, in which logprobs are computed: the router parses numbers and writes them again, which
    changes the last bit of a double."""
    if isinstance(value, float):
        return struct.pack("f", value)
    if isinstance(value, dict):
        return {key: in_float32(item) for key, item in value.items()}
    return [in_float32(item) for item in value] if isinstance(value, (list, tuple)) else value


def talk(context, turns=5):
    """Runs one conversation, in which each prompt begins with the ones before."""
    client = context.client()
    model = client.models.list().data[0].id
    messages = [{"role": "user", "content": PROMPT}]
    for _ in range(turns):
        reply = client.chat.completions.create(model=model, messages=messages, max_tokens=8, temperature=0)
        messages += [{"role": "assistant", "content": reply.choices[0].message.content or "."},
                     {"role": "user", "content": "And what came then?"}]
        time.sleep(0.2)  # until the events have arrived


def test_random(binary):
    with Server(binary, *ALONE) as alone:
        want = ask_all(alone)
    with Servers(binary) as servers, Router("--worker-urls", *servers.urls, "--policy", "random") as router:
        assert in_float32(ask_all(router)) == in_float32(want)
        assert sum(tokens > 0 for tokens in servers.metrics("vllm:prompt_tokens_total")) >= 2
        client = router.context.client()
        model = client.models.list().data[0].id
        chat = {"model": model, "messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": 20, "temperature": 0}
        whole = client.chat.completions.create(**chat).choices[0].message.content
        stream = client.chat.completions.create(**chat, stream=True)
        assert whole and "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices) == whole
        status, _, text = router.context.request("POST", "/v1/completions", {"model": "nobody", "prompt": "x"})
        assert status == 404 and "nobody" in text, (status, text)


def test_cache_aware(binary):
    with Servers(binary) as servers, Router("--worker-urls", *servers.urls, "--policy", "cache_aware") as router:
        talk(router.context)
        assert sum(tokens > 0 for tokens in servers.metrics("vllm:prompt_tokens_total")) == 1
        hits, asked = sum(servers.metrics("vllm:prefix_cache_hits_total")), sum(servers.metrics("vllm:prefix_cache_queries_total"))
        assert hits > 0.6 * asked, (hits, asked)


def test_kv_aware(binary):
    """The router records caches by Quire's events, and must have preferred the server with the cached prompt."""
    ports = [(free_port(), free_port()) for _ in range(3)]

    def events(i):
        config = {"enable_kv_cache_events": True, "endpoint": f"tcp://127.0.0.1:{ports[i][0]}",
                  "replay_endpoint": f"tcp://127.0.0.1:{ports[i][1]}"}
        return "--kv-events-config", json.dumps(config)

    with Servers(binary, events) as servers:
        model = harness.Context(servers.urls[0], "none", None).model
        sources = [flag for url, (port, replay) in zip(servers.urls, ports)
                   for flag in ("--kv-event-source", f"{url}=tcp://127.0.0.1:{port}",
                                "--kv-event-replay-source", f"{url}=tcp://127.0.0.1:{replay}")]
        with Router("--worker-urls", *servers.urls, "--policy", "kv_aware", *sources, "--kv-event-model", model,
                    "--log-level", "debug") as router:
            # Only one server has the prompt, because it was asked directly. Only its events can
            # tell the router.
            having = harness.Context(servers.urls[2], "none", None)
            before = metric(having.url, "vllm:request_success_total")
            having.post("/v1/completions", {"model": model, "prompt": PROMPT, "max_tokens": 1})
            time.sleep(1)
            for _ in range(3):
                router.context.post("/v1/completions", {"model": model, "prompt": PROMPT, "max_tokens": 4, "temperature": 0})
            assert metric(having.url, "vllm:request_success_total") == before + 4, router.output()
            credited = [int(count) for count in re.findall(r"credited_prefix_tokens=(\d+)", router.output())]
            assert credited and min(credited[-3:]) > 100, router.output()
            assert "decode batch" not in router.output(), router.output()


def test_prefill_and_decode(binary):
    """One server prefills and two decode. The answers must have the bits of one server that does both."""
    with tempfile.TemporaryDirectory() as folder, Server(binary, *PLAIN) as plain, \
            serve(binary, folder, "kv_producer", *CHUNKS) as producer, serve(binary, folder, "kv_consumer") as first, \
            serve(binary, folder, "kv_consumer") as second, \
            Router("--vllm-pd-disaggregation", "--prefill", producer.url, "--decode", first.url, "--decode", second.url,
                   "--policy", "random") as router:
        for i, fields in enumerate(({"temperature": 0}, {"temperature": 1}, {"temperature": 0.8, "top_k": 7, "max_tokens": 40})):
            for length in (5, 150, len(PROMPT)):
                prompt = f"{i}: " + PROMPT[:length]
                want, got = complete(plain, prompt, **fields)[1], complete(router, prompt, **fields)
                assert got[0] == 200 and in_float32(said(got[1])) == in_float32(said(want)), (prompt, got, want, router.output())
        client, alone = router.context.client(), harness.Context(plain.url, "none", None).client()
        chat = {"model": client.models.list().data[0].id, "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 20,
                "temperature": 0}
        want = alone.chat.completions.create(**chat).choices[0].message.content
        assert client.chat.completions.create(**chat).choices[0].message.content == want
        stream = client.chat.completions.create(**chat, stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices) == want
        taken = [metric(server.url, "quire:kv_takeovers_total") for server in (first, second)]
        assert sum(taken) >= 6, (taken, router.output())
        assert sum(metric(server.url, "quire:kv_takeovers_failed_total") for server in (first, second)) == 0
        assert metric(producer.url, "quire:kv_handovers_total") >= 6
