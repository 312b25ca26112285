"""Keys of a file through the official client: limits, headers, the file read again, and many clients at once."""
import http.client
import json
import os
import signal
import tempfile
import threading
import time

import harness
import openai
from process import Server


def write(path, *keys):
    with open(path, "w") as file:
        json.dump({"keys": list(keys)}, file)


def client_of(server, key):
    return openai.OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0)


def ask(client):
    return client.completions.with_raw_response.create(model="", prompt="Hello", max_tokens=4,
                                                       extra_body={"ignore_eos": True})


def refused(error, call):
    try:
        call()
    except error as refusal:
        return refusal
    raise AssertionError(f"expected {error}")


def test_limits_of_keys(binary):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "keys.json")
        write(path, {"name": "a", "key": "ka", "requests_per_minute": 2}, {"name": "b", "key": "kb", "tokens_per_minute": 5})
        with Server(binary, "--hardware", "none", "--api-key-file", path) as server:
            a, b = client_of(server, "ka"), client_of(server, "kb")
            refused(openai.AuthenticationError, lambda: ask(client_of(server, "none")))
            answer = ask(a)
            assert answer.headers["x-ratelimit-limit-requests"] == "2", answer.headers
            assert answer.headers["x-ratelimit-remaining-requests"] == "1", answer.headers
            ask(a)
            refusal = refused(openai.RateLimitError, lambda: ask(a))
            assert "'a'" in str(refusal) and 0 < int(refusal.response.headers["retry-after"]) <= 30, refusal
            ask(b)
            assert "tokens per minute" in str(refused(openai.RateLimitError, lambda: ask(b)))
            keys = {row["name"]: row for row in harness.Context(server.url, "ka", None).get("/quire/stats")["keys"]}
            assert (keys["a"]["requests"], keys["a"]["refused"], keys["a"]["output_tokens"]) == (2, 1, 8), keys
            assert keys["b"]["refused"] == 1 and keys["b"]["prompt_tokens"] > 0, keys
            write(path, {"name": "a", "key": "ka", "requests_per_minute": 50})
            server.process.send_signal(signal.SIGHUP)
            end = time.time() + 20
            while "read again" not in server.output() and time.time() < end:
                time.sleep(0.05)
            ask(a)
            refused(openai.AuthenticationError, lambda: ask(b))
            with open(path, "w") as file:
                file.write("nonsense")
            server.process.send_signal(signal.SIGHUP)
            while "the old content stays in use" not in server.output() and time.time() < end:
                time.sleep(0.05)
            ask(a)


class Caller(threading.Thread):
    """Sends requests with a key on one connection until `is_over`, and counts statuses and tokens."""
    TOKENS = 4

    def __init__(self, server, key, start_line, is_over):
        super().__init__()
        self.key, self.start_line, self.is_over = key, start_line, is_over
        self.connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=60)
        self.statuses, self.tokens = {}, 0

    @property
    def answered(self):
        return self.statuses.get(200, 0)

    def run(self):
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        body = json.dumps({"prompt": "Hello", "max_tokens": self.TOKENS, "ignore_eos": True, "temperature": 0})
        self.start_line.wait()
        while not self.is_over(self):
            self.connection.request("POST", "/v1/completions", body, headers)
            answer = self.connection.getresponse()
            text = answer.read()
            self.statuses[answer.status] = self.statuses.get(answer.status, 0) + 1
            if answer.status == 200:
                self.tokens += json.loads(text)["usage"]["total_tokens"]
            else:
                time.sleep(0.005)  # less than Retry-After says
        self.connection.close()


def test_limits_of_keys_under_many_clients(binary):
    """Four keys with eight clients each send at once and ignore Retry-After. No key exceeds its limits or blocks another,
    each client of a limited key is served sometimes, and the server's counts equal those of the clients."""
    requests, tokens, clients, seconds = 60, 300, 8, 2
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "keys.json")
        write(path, {"name": "requests", "key": "kr", "requests_per_minute": requests},
              {"name": "tokens", "key": "kt", "tokens_per_minute": tokens},
              {"name": "narrow", "key": "kn", "max_concurrent": 2}, {"name": "free", "key": "kf"})
        with Server(binary, "--hardware", "none", "--api-key-file", path) as server:
            begin, start_line = time.monotonic(), threading.Barrier(4 * clients)

            def is_over(caller):
                if caller.key in ("kr", "kt"):
                    return time.monotonic() - begin > seconds
                return caller.answered == 10  # clients of the other keys continue until each has its share
            callers = [Caller(server, key, start_line, is_over) for key in ("kr", "kt", "kn", "kf") for _ in range(clients)]
            for caller in callers:
                caller.start()
            context, running = harness.Context(server.url, "kf", None), 0
            while any(caller.is_alive() for caller in callers):
                running = max(running, context.metric("quire:key_requests_running", key="narrow"))
                time.sleep(0.02)
            for caller in callers:
                caller.join()
            minutes = (time.monotonic() - begin) / 60
            rows = {row["name"]: row for row in context.get("/quire/stats")["keys"]}
            of = {name: [caller for caller in callers if caller.key == key]
                  for name, key in (("requests", "kr"), ("tokens", "kt"), ("narrow", "kn"), ("free", "kf"))}
            for name, mine in of.items():
                assert set().union(*(caller.statuses for caller in mine)) <= {200, 429}, (name, [c.statuses for c in mine])
                assert sum(c.answered for c in mine) == rows[name]["requests"], (name, rows[name])
                assert sum(c.statuses.get(429, 0) for c in mine) == rows[name]["refused"], (name, rows[name])
                assert all(c.answered > 0 for c in mine), (name, [c.statuses for c in mine])
            admitted = rows["requests"]["requests"]
            assert requests <= admitted <= requests * (1 + minutes) + 1, (admitted, minutes)
            charged = rows["tokens"]["prompt_tokens"] + rows["tokens"]["output_tokens"]
            assert charged == sum(c.tokens for c in of["tokens"]), (charged, rows["tokens"])
            # A bucket may be in debt by the tokens of the requests that ran when it became empty.
            debt = clients * (charged // rows["tokens"]["requests"] + 1)
            assert tokens <= charged <= tokens * (1 + minutes) + debt, (charged, minutes)
            assert 1 <= running <= 2 and rows["narrow"]["refused"] > 0, (running, rows["narrow"])
            assert rows["free"]["refused"] == 0, rows["free"]
