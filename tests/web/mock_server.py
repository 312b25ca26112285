#!/usr/bin/env python3
"""A stand-in for `quire serve` that speaks just enough for the web page: used by test_page.py and for
working on the page without a model.

  python3 tests/web/mock_server.py --port 8123

A prompt that contains MARKDOWN is answered with some, REFUSE with an error; CUT breaks the stream half way, and FAIL
reports an error inside the stream. --max-model-len and --api-key are what they are to `quire serve`.
"""

import argparse
import http.server
import itertools
import json
import math
import pathlib
import random
import re
import threading
import time

WEB = pathlib.Path(__file__).resolve().parents[2] / "web"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
BLOCK_SIZE, NUM_BLOCKS = 16, 600
STORY = (
    "Once upon a time, there was a brave fox named Pip. One windy day, Pip wanted to cross the river. "
    'The water was deep, and there was no bridge. "Come with me," said Luna the owl — 🦊🦉. '
    "They crossed the river slowly and laughed all the way."
)


MARKDOWN = """## A plan

Some **bold** text with `code`, *emphasis* and [a link](https://example.com/a).

1. first
   - inner <b>not markup</b>
2. second

| a | b |
|---|--:|
| 1 | 2 |

> quoted

```python
print("hi")  # **not bold**
```
"""


def split(text):
    return re.findall(r" ?\w+|\s+|[^\w\s]+", text)


def text_of(content):
    """Returns the text of a message without its pictures."""
    return content if isinstance(content, str) else "" if content is None else "".join(part.get("text", "") for part in content)


def count_tokens(messages):
    """Returns the count of /tokenize: four template tokens around each message, and three before the answer."""
    return 3 + sum(4 + len(split(text_of(m["content"]))) for m in messages)


def timings(num_tokens):
    """Returns timings of 20 ms to the first token and 80 tokens per second, however fast the network is."""
    decode_ms = 12.5 * (num_tokens - 1)
    return {
        "first_token_ms": 20.0,
        "last_token_ms": 20.0 + decode_ms,
        "queue_ms": 2.0,
        "prompt_ms": 18.0,
        "decode_ms": decode_ms,
    }


def render(prompt):
    """Returns a text unchanged, and messages rendered by a template."""
    if isinstance(prompt, str):
        return split(prompt)
    turns = [["<|turn|>", m["role"], "\n", *split(m["content"]), "<|end|>"] for m in prompt]
    return [token for turn in turns for token in turn] + ["<|turn|>", "assistant", "\n"]


def token_entry(text, rng):
    p = min(0.999, rng.random() ** 0.25)
    others = [" the", " a", " little", " one"]
    top = [(text, p)] + [(o, (1 - p) * share) for o, share in zip(others, (0.5, 0.25, 0.15, 0.1))]
    entry = lambda t, q: {"token": t, "logprob": math.log(max(q, 1e-9)), "bytes": list(t.encode())}
    return {
        **entry(text, p),
        "top_logprobs": [entry(t, q) for t, q in sorted(top, key=lambda x: -x[1])],
    }


class State:
    """The figures that the page shows, which change a little with every reading."""

    def __init__(self):
        self.lock = threading.Lock()
        self.rng = random.Random(7)
        self.start = time.time()
        self.num_owners = 8
        self.generated = self.prompted = self.hits = self.queries = self.requests = self.running = 0

    def stats(self):
        with self.lock:
            t, r = time.time() - self.start, self.rng
            self.generated += r.randint(300, 420)
            self.prompted += r.randint(50, 900)
            new = r.randint(20, 60)
            self.queries += new
            self.hits += int(new * (0.55 + 0.2 * math.sin(t / 5)))
            used = int(NUM_BLOCKS * (0.45 + 0.2 * math.sin(t / 8)))
            latency = lambda low: {
                "p50": low * (1 + 0.2 * r.random()),
                "p90": low * (1.8 + 0.5 * r.random()),
            }
            return {
                "model": "quire-builtin",
                "version": "0.1.0",
                "uptime_s": t + 4000,
                "running": self.running + r.randint(3, 8),
                "waiting": r.randint(0, 3),
                "requests_total": 1280 + self.requests,
                "prompt_tokens_total": 51234 + self.prompted,
                "generation_tokens_total": 93456 + self.generated,
                "preemptions_total": 3,
                "kv_blocks_total": NUM_BLOCKS,
                "kv_blocks_used": used,
                "kv_blocks_cached": (NUM_BLOCKS - used) // 3,
                "prefix_cache_queries_total": self.queries,
                "prefix_cache_hits_total": self.hits,
                "ttft_ms": latency(18),
                "itl_ms": latency(4.2),
                "step_ms": latency(3.9),
                "speculation": {"verified": 1000, "drafted": 3600, "accepted": 1900, "accepted_by_place": [800, 600, 350, 150, 0]},
                "structured_output": {"hits": 41, "compiled": 7, "failed": 1, "kept": 8},
                "keys": [
                    {"name": "a team <b>", "running": 2, "requests": 812, "refused": 3, "prompt_tokens": 48210, "output_tokens": 91234},
                    {"name": "nightly", "running": 0, "requests": 40, "refused": 0, "prompt_tokens": 900, "output_tokens": 1200},
                ],
            }

    def blocks(self):
        owners = [f"chatcmpl-{i:04x}" for i in range(9, 9 + self.num_owners)]
        runs, left, r = (
            [[1, 0, -1, 0], [14, 4, 0, 6]],
            NUM_BLOCKS - 15,
            random.Random(int(time.time() / 3)),
        )
        longest = 30 if self.num_owners <= 8 else 6
        owner = itertools.cycle(range(self.num_owners))
        while left > 0:
            n = min(left, r.randint(2, longest))
            state = r.choice((1, 1, 2, 3, 3, 3, 3, 4 if r.random() < 0.2 else 3))
            runs.append(
                [
                    n,
                    state,
                    next(owner) if state >= 3 else -1,
                    {3: 1, 4: 3}.get(state, 0),
                ]
            )
            left -= n
        return {"block_size": BLOCK_SIZE, "num_blocks": NUM_BLOCKS, "owners": owners, "runs": runs}


def explore(body):
    a, b = render(body["a"]), render(body["b"])
    shared = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return {
        "block_size": BLOCK_SIZE,
        "a": {"tokens": a},
        "b": {"tokens": b},
        "shared_tokens": shared,
        "shared_blocks": shared // BLOCK_SIZE,
        "cached_blocks_a": min(1, len(a) // BLOCK_SIZE),
        "cached_blocks_b": 0,
    }


def steps():
    """Returns decode steps of growing batches and one prompt, as on a small machine."""
    terms = ["weights", "kv", "activations", "compute", "network", "launch", "host"]
    columns = "step tokens decodes requests flops bytes measured_us bound_us predicted_us host_us".split()
    rows = []
    for i in range(40):
        batch = 1 + i % 16
        rows.append([i, batch, batch, batch, 2e9 * batch, 2e9, 60e3 + 7e3 * batch, 50e3, 59e3 + 6e3 * batch, 200]
                    + [50e3, 500 * batch, 300, 1000, 0, 100, 200])
    rows.append([40, 512, 0, 1, 1e12, 3e9, 4e6, 3e6, 3.9e6, 300] + [0, 0, 1e4, 3.9e6, 0, 100, 300])
    hardware = {"name": "mock", "source": "mock", "bytes_per_s": 40e9, "peaks": {"f32": 150e9, "bf16": 300e9, "int8": 310e9}}
    return {"hardware": hardware, "columns": columns, "terms": terms, "steps": rows}


class Handler(http.server.BaseHTTPRequestHandler):
    state = State()
    bodies = []  # chat requests as received, for the test
    disconnects = 0  # streams that the page left early
    explored = []  # bodies of /quire/kv/explore
    max_model_len = 2048
    api_key = None
    num_unauthorized = 0
    has_views = True  # /quire/*
    num_views_asked = 0

    def log_message(self, *_):
        pass

    def reply(self, value, status=200):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuses_key(self):
        """Returns whether it answered the request with 401."""
        if not self.api_key or self.headers.get("Authorization") == f"Bearer {self.api_key}":
            return False
        Handler.num_unauthorized += 1
        self.reply({"error": "Unauthorized"}, 401)
        return True

    def lacks(self, path):
        """Returns whether it answered the request with 404, because the views are off."""
        Handler.num_views_asked += path.startswith("/quire/")
        if self.has_views or not path.startswith("/quire/"):
            return False
        self.reply({"error": {"message": f"no such page: {path}"}}, 404)
        return True

    def do_GET(self):
        path = self.path.split("?")[0]
        if path.startswith(("/v1/", "/quire/")) and self.refuses_key():
            return
        if self.lacks(path):
            return
        if path == "/v1/models":
            card = {
                "id": "quire-builtin",
                "object": "model",
                "root": "quire-builtin",
                "max_model_len": self.max_model_len,
            }
            return self.reply({"object": "list", "data": [card]})
        if path == "/quire/stats":
            return self.reply(self.state.stats())
        if path == "/quire/kv/blocks":
            return self.reply(self.state.blocks())
        if path == "/quire/steps":
            return self.reply(steps())
        file = WEB / ("index.html" if path == "/" else path.removeprefix("/web/"))
        if file.parent != WEB or not file.is_file():
            return self.reply({"error": {"message": f"no such page: {path}"}}, 404)
        self.send_response(200)
        self.send_header("Content-Type", TYPES[file.suffix])
        self.send_header("Content-Security-Policy", "default-src 'self'")
        self.end_headers()
        self.wfile.write(file.read_bytes())

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.refuses_key() or self.lacks(self.path):
            return
        if self.path == "/quire/kv/explore":
            Handler.explored.append(body)
            return self.reply(explore(body))
        if self.path == "/tokenize":
            return self.reply({"count": count_tokens(body["messages"]), "max_model_len": self.max_model_len})
        if self.path != "/v1/chat/completions":
            return self.reply({"error": {"message": "no such route"}}, 404)
        Handler.bodies.append(body)
        prompt = text_of(body["messages"][-1]["content"])
        if "REFUSE" in prompt:
            return self.reply(
                {
                    "error": {
                        "message": "max_tokens must be at least 1, got -3",
                        "type": "invalid_request_error",
                        "code": 400,
                    }
                },
                400,
            )
        num_prompt = count_tokens(body["messages"])
        if num_prompt >= self.max_model_len:
            message = (
                f"This model's maximum context length is {self.max_model_len} tokens, so a prompt has "
                f"at most {self.max_model_len - 1}; got {num_prompt}"
            )
            return self.reply({"error": {"message": message, "param": "input_tokens", "code": 400}}, 400)
        self.state.requests += 1
        self.state.running += 1
        try:
            self.stream(body, prompt)
        except (BrokenPipeError, ConnectionResetError):
            Handler.disconnects += 1
        finally:
            self.state.running -= 1

    def event(self, value):
        self.wfile.write(
            b"data: "
            + (value if isinstance(value, bytes) else json.dumps(value).encode())
            + b"\n\n"
        )
        self.wfile.flush()

    def call_tool(self, name, num_prompt):
        chunk = lambda delta, **more: {"id": "chatcmpl-1", "choices": [{"index": 0, "delta": delta, "finish_reason": None, **more}]}
        call = {"index": 0, "id": "call_7", "type": "function", "function": {"name": name, "arguments": ""}}
        self.event(chunk({"role": "assistant", "tool_calls": [call]}))
        self.event(chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"city": "Paris"}'}}]}))
        self.event(chunk({}, finish_reason="tool_calls"))
        self.event({"id": "chatcmpl-1", "choices": [], "usage": {"prompt_tokens": num_prompt, "completion_tokens": 9,
                                                                "total_tokens": num_prompt + 9}})
        self.event(b"[DONE]")

    def stream(self, body, prompt):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        rng = random.Random(prompt)
        num_prompt = count_tokens(body["messages"])
        last = body["messages"][-1]
        if "tools" in body and last["role"] == "user" and "TOOL" in prompt:
            return self.call_tool(body["tools"][0]["function"]["name"], num_prompt)
        whole = split(f"It says {prompt}.") if last["role"] == "tool" else split(MARKDOWN if "MARKDOWN" in prompt else STORY if "story" in prompt else f"You said: {prompt}")
        tokens = whole[: min(body.get("max_tokens", 10000), self.max_model_len - num_prompt)]
        chunk = lambda delta, **more: {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "choices": [{"index": 0, "delta": delta, "finish_reason": None, **more}],
        }
        self.event(chunk({"role": "assistant", "content": ""}))
        for i, token in enumerate(tokens):
            if i == 3 and "CUT" in prompt:
                return
            if i == 3 and "FAIL" in prompt:
                return self.event(
                    {"error": {"message": "the engine stopped this request", "code": 500}}
                )
            self.event(chunk({"content": token}, logprobs={"content": [token_entry(token, rng)]}))
            time.sleep(0.15 if "SLOW" in prompt else 0.012)
        self.event(chunk({}, finish_reason="stop" if tokens == whole else "length"))
        usage = {
            "prompt_tokens": num_prompt,
            "completion_tokens": len(tokens),
            "total_tokens": num_prompt + len(tokens),
            "prompt_tokens_details": {"cached_tokens": 0},
        }
        if body.get("return_timings"):
            usage["timings"] = timings(len(tokens))
        self.event({"id": "chatcmpl-1", "choices": [], "usage": usage})
        self.event(b"[DONE]")


def start(port=0):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=8123)
    parser.add_argument("--max-model-len", type=int, default=2048)
    parser.add_argument("--api-key")
    options = parser.parse_args()
    Handler.max_model_len, Handler.api_key = options.max_model_len, options.api_key
    server = start(options.port)
    print(f"http://127.0.0.1:{server.server_address[1]}/")
    threading.Event().wait()


if __name__ == "__main__":
    main()
