#!/usr/bin/env python3
"""Starts `quire serve` on the built-in model, waits until it is ready and says how to talk to it.

With --check: sends one streamed chat request, prints the answer, stops the server and exits 0. Standard library only.
"""
import argparse
import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

QUESTION = "Tell me a short story about a cat."


def wait_until_ready(url, server, timeout_s=60):
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if server.poll() is not None:
            sys.exit(f"up: the server ended with exit code {server.returncode} before it was ready")
        try:
            with urllib.request.urlopen(url + "/health", timeout=2):
                return
        except (urllib.error.URLError, ConnectionError, socket.timeout):
            time.sleep(0.05)
    server.kill()
    sys.exit(f"up: {url}/health did not answer within {timeout_s} s")


def ask(url, model):
    body = {"model": model, "stream": True, "temperature": 0, "max_tokens": 120,
            "messages": [{"role": "user", "content": QUESTION}]}
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    answer, done = "", False
    with urllib.request.urlopen(request, timeout=60) as response:
        for line in response:
            line = line.decode().strip()
            if line == "data: [DONE]":
                done = True
            elif line.startswith("data: "):
                chunk = json.loads(line[len("data: "):])
                if "error" in chunk:
                    sys.exit(f"up: the server answered {chunk['error']}")
                for choice in chunk["choices"]:
                    piece = choice["delta"].get("content") or ""
                    answer += piece
                    print(piece, end="", flush=True)
    print()
    if not done or not answer.strip():
        sys.exit("up: the stream ended without an answer")


def served_model(url):
    with urllib.request.urlopen(url + "/v1/models", timeout=5) as response:
        return json.load(response)["data"][0]["id"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default="build/release/quire")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()

    url = f"http://127.0.0.1:{args.port}"
    server = subprocess.Popen([args.binary, "serve", "--host", "127.0.0.1", "--port", str(args.port)])
    signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    started = time.monotonic()
    wait_until_ready(url, server)
    model = served_model(url)
    print(f"""
Ready after {time.monotonic() - started:.2f} s. Try:

  curl -N {url}/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{{"model": "{model}", "stream": true, "messages": [{{"role": "user", "content": "{QUESTION}"}}]}}'

  python3 -c 'from openai import OpenAI; c = OpenAI(base_url="{url}/v1", api_key="none"); \\
    print(c.chat.completions.create(model="{model}", messages=[{{"role": "user", "content": "{QUESTION}"}}]).choices[0].message.content)'

  open {url}/ in a browser
""", flush=True)
    if args.check:
        print(f"> {QUESTION}")
        ask(url, model)
        server.send_signal(signal.SIGTERM)
        code = server.wait(timeout=60)
        print(f"the server stopped with exit code {code}")
        return code
    try:
        return server.wait()
    except KeyboardInterrupt:
        server.send_signal(signal.SIGTERM)
        return server.wait()


if __name__ == "__main__":
    sys.exit(main())
