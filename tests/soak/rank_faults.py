#!/usr/bin/env python3
"""Two ranks on hosts of their own whose link loses packets, and which are harmed again and again: every answer has the bits of one rank
alone, and no client waits for ever.

    build/clients/bin/python tests/soak/rank_faults.py --binary build/release/quire --requests 10000 --faults 20

This script stands for the launcher: when a rank ends, it ends the other one and starts both again. Needs root (tests/e2e/network.py).
"""
import argparse
import concurrent.futures
import http.client
import json
import os
import random
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

import harness  # noqa: E402
from network import HostRanks, Network  # noqa: E402
from process import Server  # noqa: E402

# A client, or the end of a group, that takes longer hangs.
HANGS_S = 120
TEXT = "Once upon a time there was a dog named Max, who went to the park because the sun was out. "
KINDS = ("rank 1 killed", "rank 0 killed", "rank 1 stopped", "rank 0 stopped", "link down")


def make_requests(num, seed):
    draw = random.Random(seed)
    return [{"prompt": TEXT[draw.randrange(40):][:draw.randrange(1, 50)], "max_tokens": draw.randrange(1, 5), "seed": i, "logprobs": 3,
             "temperature": float(i % 2), "ignore_eos": True} for i in range(num)]


def ask(url, request):
    """Returns (status, the parts of the answer that must always have the same bits)."""
    context = harness.Context(url, "none", 0)
    status, _, text = context.request("POST", "/v1/completions", request, HANGS_S)
    if status != 200:
        return status, None
    choice = json.loads(text)["choices"][0]
    return status, (choice["text"], choice["logprobs"])


class Soak:
    def __init__(self, network, binary, wanted, num_requests):
        self.network, self.binary, self.wanted, self.num_requests = network, binary, wanted, num_requests
        self.lock, self.ready = threading.Lock(), threading.Event()
        self.url = None
        self.num_started = self.num_right = self.num_wrong = self.num_hung = self.num_told = 0
        self.noticed_s, self.ended_by_loss, self.failed_starts = {}, 0, 0

    def start(self):
        while True:
            try:
                self.group = HostRanks(self.network, self.binary, "--max-num-queued-reqs", "4096")
                break
            except RuntimeError as error:  # the ranks did not find each other in time
                self.failed_starts += 1
                assert self.failed_starts < 10, error
        self.url = self.group.url
        self.ready.set()

    def client(self):
        while True:
            with self.lock:
                if self.num_started == self.num_requests:
                    return
                i = self.num_started
                self.num_started += 1
            self.answer(*self.wanted[i % len(self.wanted)])

    def answer(self, request, want):
        """Asks until there is an answer, like a client that repeats a request after an error."""
        while True:
            if not self.ready.wait(HANGS_S):
                return
            try:
                status, said = ask(self.url, request)
            except TimeoutError:
                self.count("num_hung")
                return
            except (OSError, http.client.HTTPException):
                status, said = 503, None
            if status == 200:
                self.count("num_right" if said == want else "num_wrong")
                return
            assert status == 503, status
            self.count("num_told")
            time.sleep(0.05)

    def count(self, name):
        with self.lock:
            setattr(self, name, getattr(self, name) + 1)

    def num_done(self):
        with self.lock:
            return self.num_right + self.num_wrong + self.num_hung

    def harm(self, kind):
        group = self.group
        start = time.time()
        if kind == "link down":
            self.network.set_link(1, "down")
        else:
            rank = group.first if "rank 0" in kind else group.second
            rank.send_signal(signal.SIGSTOP if "stopped" in kind else signal.SIGKILL)
        watched = group.second if "rank 0" in kind else group.first
        while not self.notices(watched):
            assert time.time() < start + HANGS_S, f"{kind}: not noticed"
            time.sleep(0.01)
        self.noticed_s.setdefault(kind, []).append(time.time() - start)
        watched.process.wait(HANGS_S)
        self.again()

    @staticmethod
    def notices(watched):
        """Returns whether the rank has ended, or has announced that it will."""
        if watched.process.poll() is not None:
            return True
        if not hasattr(watched, "server"):
            return False
        try:
            return harness.Context(watched.server.url, "none", 0).request("GET", "/health", None, HANGS_S)[0] == 503
        except (OSError, http.client.HTTPException):
            return watched.process.poll() is not None

    def again(self):
        self.ready.clear()
        self.group.end()
        self.network.set_link(1, "up")
        self.start()

    def run(self, kinds, num_clients):
        """Harms the ranks by `kinds`, at equal intervals."""
        self.start()
        with concurrent.futures.ThreadPoolExecutor(num_clients) as pool:
            clients = [pool.submit(self.client) for _ in range(num_clients)]
            for i, kind in enumerate(kinds):
                self.wait_for(self.num_requests * (i + 1) // (len(kinds) + 1))
                self.harm(kind)
            self.wait_for(self.num_requests)
            for client in clients:
                client.result()
        self.group.end()

    def wait_for(self, num_done):
        while self.num_done() < num_done:
            if self.group.has_ended():
                self.ended_by_loss += 1
                self.again()
            time.sleep(0.02)

    def summary(self):
        noticed = "; ".join(f"{kind} {len(times)} times, noticed after {min(times):.2f} to {max(times):.2f} s"
                            for kind, times in self.noticed_s.items())
        return (f"{self.num_right} right, {self.num_wrong} wrong, {self.num_hung} hung; {self.num_told} times a client was told of an error and "
                f"asked again; {noticed}; {self.ended_by_loss} groups ended for lost packets alone, {self.failed_starts} did not start")


def soak(binary, num_requests, kinds, num_clients=64, seed=1, num_distinct=200):
    """Runs the soak test to its end and returns it."""
    requests = make_requests(min(num_distinct, num_requests), seed)
    with Server(binary, "--threads", "1", "--hardware", "none", "--no-enable-prefix-caching") as alone:
        wanted = [(request, ask(alone.url, request)[1]) for request in requests]
    with Network(2) as network:
        print(f"    links: {network.spoil(1)}", flush=True)
        run = Soak(network, binary, wanted, num_requests)
        try:
            run.run(kinds, num_clients)
        finally:
            run.group.end()
    return run


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--clients", type=int, default=256)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the hosts and their ranks end too
    begin = time.time()
    run = soak(args.binary, args.requests, [KINDS[i % len(KINDS)] for i in range(args.faults)], args.clients, args.seed)
    print(f"{run.summary()}; {time.time() - begin:.0f} s")
    late = [seconds for times in run.noticed_s.values() for seconds in times if seconds > 5]
    return 1 if run.num_wrong or run.num_hung or late else 0


if __name__ == "__main__":
    sys.exit(main())
