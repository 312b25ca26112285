"""Keys of a file through the official client: limits, headers, and the file read again."""
import json
import os
import signal
import tempfile
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
            while "stays as it was" not in server.output() and time.time() < end:
                time.sleep(0.05)
            ask(a)
