"""Starts, asks and stops a `quire serve` process for measurements."""
import http.client
import json
import os
import re
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.path.join(ROOT, "build/release/quire")


class Server:
    """Runs for the length of `with Server(binary, [model, flags…]) as server:`."""

    def __init__(self, binary, flags):
        self.log = tempfile.TemporaryFile("w+")
        self.begin = time.perf_counter()
        self.process = subprocess.Popen([binary, "serve", *flags, "--port", "0"], stderr=self.log)
        self.port = self._wait_for_port()
        self.ready_s = time.perf_counter() - self.begin

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.process.terminate()
        self.process.wait(30)

    def _wait_for_port(self):
        while True:
            self.log.seek(0)
            text = self.log.read()
            found = re.search(r"serving .* on http://127\.0\.0\.1:(\d+)", text)
            if found:
                return int(found.group(1))
            if self.process.poll() is not None:
                raise SystemExit(f"quire serve: {text.strip()}")
            time.sleep(0.002)

    def complete(self, token_ids, max_tokens):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        body = json.dumps({"prompt": token_ids, "max_tokens": max_tokens, "ignore_eos": True})
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise SystemExit(f"quire serve: {text.decode()}")

    def resident_mib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1)) / 1024
