"""Several servers behind `quire route`: every request ends with its whole answer or with an error that says what happened."""
import concurrent.futures
import os
import resource
import socket
import tempfile
import threading
import time

import harness
from command import run
from process import Server
from test_ranks import ask_all


def context_of(server):
    context = harness.Context(server.url, "none", server.process.pid)
    context.wait_ready(60)
    return context


class Fleet:
    """Three servers and a gateway in front of them."""

    def __init__(self, binary, *flags, count=3):
        self.binary = binary
        self.servers = [self.serve(0) for _ in range(count)]
        self.ports = [server.port for server in self.servers]  # one that is started again keeps its port
        backends = [flag for server in self.servers for flag in ("--backend", server.url)]
        self.gateway = Server(binary, *backends, "--health-interval-ms", "100", *flags, verb="route")
        self.context = harness.Context(self.gateway.url, "none", self.gateway.process.pid)
        self.wait_healthy(count)

    def serve(self, port):
        return Server(self.binary, "--threads", "1", "--port", str(port))

    def backends(self):
        return self.context.get("/quire/backends")["backends"]

    def wait_healthy(self, count, seconds=30):
        end = time.time() + seconds
        while sum(backend["healthy"] for backend in self.backends()) != count:
            assert time.time() < end, self.backends()
            time.sleep(0.02)

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        if failure is not None:
            print(self.gateway.output(), flush=True)
        self.gateway.stop()
        for server in self.servers:
            if server.process.poll() is None:
                server.process.kill()
            server.process.wait(10)


def test_answers_through_the_gateway_are_those_of_a_server(binary):
    with Server(binary, "--threads", "1") as server:
        want = ask_all(server)
    with Fleet(binary) as fleet:
        assert ask_all(fleet.gateway) == want
        assert sum(backend["requests_total"] > 0 for backend in fleet.backends()) == 3
        client = fleet.context.client()
        model = client.models.list().data[0].id
        messages = [{"role": "user", "content": "Tell me a story."}]
        whole = client.chat.completions.create(model=model, messages=messages, max_tokens=30, temperature=0)
        stream = client.chat.completions.create(model=model, messages=messages, max_tokens=30, temperature=0, stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices) == whole.choices[0].message.content
        status, _, text = fleet.context.request("POST", "/v1/completions", {"model": "nobody", "prompt": "x"})
        assert status == 404 and "nobody" in text, (status, text)
        # A conversation stays on the server that has its beginning in the cache.
        before = [backend["requests_total"] for backend in fleet.backends()]
        messages = [{"role": "user", "content": "Tell me a story about a fox and an owl. " * 20}]
        for _ in range(4):
            reply = client.chat.completions.create(model=model, messages=messages, max_tokens=8, temperature=0)
            messages += [{"role": "assistant", "content": reply.choices[0].message.content or "."},
                         {"role": "user", "content": "And then?"}]
        after = [backend["requests_total"] for backend in fleet.backends()]
        assert sorted(b - a for a, b in zip(before, after)) == [0, 0, 4], (before, after)


def test_servers_that_die_during_load(binary):
    """Every request ends with its complete answer or with an error that says what happened."""
    with Fleet(binary) as fleet:
        model = fleet.context.model
        outcomes, stop = [], threading.Event()

        def load(seed):
            import openai
            client = fleet.context.client(timeout=60)
            while not stop.is_set():
                text, chunks = "", 0
                try:
                    stream = client.completions.create(model=model, prompt=f"{seed} Once upon a time", max_tokens=60, stream=True,
                                                       temperature=0, extra_body={"ignore_eos": True},
                                                       stream_options={"include_usage": True})
                    for chunk in stream:
                        chunks += 1
                        text += "".join(choice.text for choice in chunk.choices)
                        usage = chunk.usage
                    outcomes.append((seed, "whole", text, usage.completion_tokens if usage else 0))
                except openai.APIError as error:
                    outcomes.append((seed, "error", str(error), chunks))

        threads = [threading.Thread(target=load, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        for _ in range(3):
            for i in range(3):
                time.sleep(0.7)
                fleet.servers[i].process.kill()
                fleet.servers[i].process.wait(10)
                time.sleep(0.3)
                fleet.servers[i] = fleet.serve(fleet.ports[i])
        stop.set()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), "a client hangs"
        fleet.wait_healthy(3)
        whole = {seed: text for seed, what, text, _ in outcomes if what == "whole"}
        assert len(whole) == 6, outcomes
        for seed, what, text, count in outcomes:
            if what == "whole":
                assert count == 60 and text == whole[seed], (seed, text, count)
            else:
                assert "cut off" in text or "backend" in text, text
        errors = [text for _, what, text, _ in outcomes if what == "error"]
        assert len(errors) < 0.2 * len(outcomes), (len(errors), len(outcomes))
        # Requests that had not begun were sent to another server. Only streams that had begun are
        # lost, and their clients are told.
        assert all("cut off" in text for text in errors), errors
        print(f"    {len(outcomes)} requests, {len(errors)} cut off by nine deaths", flush=True)


def test_a_server_that_drains_gets_nothing_new(binary):
    with Fleet(binary, count=2) as fleet:
        model = fleet.context.model
        body = {"model": model, "prompt": "Once", "max_tokens": 300, "ignore_eos": True}
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(fleet.context.request, "POST", "/v1/completions", {**body, "prompt": f"{i} once"})
                     for i in range(4)]
            time.sleep(0.2)
            fleet.servers[0].terminate()
            statuses = [fleet.context.request("POST", "/v1/completions", {**body, "max_tokens": 4})[0] for _ in range(12)]
            assert statuses == [200] * 12, statuses
            assert [done.result()[0] for done in asked] == [200] * 4
        assert fleet.servers[0].wait(20) == 0
        fleet.wait_healthy(1)


def test_the_gateway_drains(binary):
    with Fleet(binary, count=1) as fleet:
        body = {"model": fleet.context.model, "prompt": "Once", "max_tokens": 300, "ignore_eos": True}
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            asked = pool.submit(fleet.context.request, "POST", "/v1/completions", body)
            end = time.time() + 10
            while fleet.backends()[0]["open"] == 0 and time.time() < end:
                time.sleep(0.01)
            fleet.gateway.terminate()
            assert asked.result()[0] == 200
        assert fleet.gateway.wait(20) == 0


def test_a_file_of_backends_is_followed(binary):
    with Server(binary, "--threads", "1") as a, Server(binary, "--threads", "1") as b, tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "endpoints.yaml")

        def write(text):
            with open(path + ".new", "w") as out:
                out.write(text)
            os.rename(path + ".new", path)

        write(f"endpoints:\n- name: a\n  address: 127.0.0.1\n  port: \"{a.port}\"\n")
        with Server(binary, "--backends-file", path, "--health-interval-ms", "100", verb="route") as gateway:
            context = context_of(gateway)

            def wait_for(ports):
                end = time.time() + 10
                while [(backend["address"], backend["healthy"]) for backend in context.get("/quire/backends")["backends"]] != \
                        [(f"127.0.0.1:{port}", True) for port in ports]:
                    assert time.time() < end, context.get("/quire/backends")
                    time.sleep(0.05)

            wait_for([a.port])
            write(f"{a.url}\n{b.url}\n")
            wait_for([a.port, b.port])
            write("endpoints:\n- nonsense\n")
            time.sleep(1)
            wait_for([a.port, b.port])
            write(f"{b.url}\n")
            wait_for([b.port])
            assert context.request("GET", "/v1/models")[0] == 200
            assert "stay as they are" in gateway.output()


def test_gateways_that_cannot_be(binary):
    for said, *flags in (("--backend", ), ("http://HOST:PORT", "--backend", "https://a:1"), ("routing", "--backend", "a:1", "--routing", "x"),
                         ("--backends-file", "--backend", "a:1", "--backends-file", "x"),
                         ("no file", "--backends-file", "/nonexistent")):
        done = run(binary, "route", *flags)
        assert done.returncode == 1 and said in done.stderr and len(done.stderr.strip().splitlines()) == 1, (flags, done)


def test_ten_thousand_open_streams_through_the_gateway(binary):
    """The gateway holds ten thousand open streams in bounded memory, on one core."""
    # This process has both ends of each connection.
    count = min(10_000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2 - 500)
    backend = StreamHolder()
    with Server(binary, "--backend", f"http://127.0.0.1:{backend.port}", "--health-interval-ms", "200", verb="route") as gateway:
        context = context_of(gateway)
        before = context.rss_mib()
        clients = []
        try:
            for i in range(count):
                client = socket.create_connection(("127.0.0.1", gateway.port))
                client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
                clients.append(client)
                if i % 500 == 499:
                    backend.wait_for(i + 1)
            backend.wait_for(count)
            held = context.rss_mib() - before
            backend.say_all(b"9\r\ndata: x\n\n\r\n")
            for client in clients:
                client.settimeout(60)
                received = b""
                while b"data: x" not in received:
                    piece = client.recv(4096)
                    assert piece, "a stream ended"
                    received += piece
            assert held < 400, f"{count} streams take {held:.0f} MiB"
            print(f"    {count} open streams: {held:.0f} MiB", flush=True)
        finally:
            for client in clients:
                client.close()
        end = time.time() + 30
        while context.get("/quire/backends")["backends"][0]["open"] > 0:
            assert time.time() < end, "streams whose clients have left stay open"
            time.sleep(0.1)
    backend.close()


class StreamHolder:
    """Begins an event stream for every POST request, and keeps it open."""

    def __init__(self):
        import selectors
        self.selector = selectors.DefaultSelector()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.listener.setblocking(False)
        self.port = self.listener.getsockname()[1]
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.streams, self.is_open = set(), True
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        import selectors
        while self.is_open:
            for key, _ in self.selector.select(0.1):
                if key.fileobj is self.listener:
                    connection, _ = self.listener.accept()
                    connection.setblocking(False)
                    self.selector.register(connection, selectors.EVENT_READ)
                    continue
                try:
                    data = key.fileobj.recv(65536)
                except OSError:
                    data = b""
                if not data:
                    self.selector.unregister(key.fileobj)
                    self.streams.discard(key.fileobj)
                    key.fileobj.close()
                elif data.startswith(b"POST"):
                    key.fileobj.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
                    self.streams.add(key.fileobj)
                else:
                    key.fileobj.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    def wait_for(self, count):
        end = time.time() + 120
        while len(self.streams) < count:
            assert time.time() < end, f"{len(self.streams)} of {count} streams"
            time.sleep(0.01)

    def say_all(self, data):
        for stream in list(self.streams):
            stream.sendall(data)

    def close(self):
        self.is_open = False
        self.thread.join()
        self.listener.close()
