"""Prefill, decode, files of KV and the gateway on hosts of their own, as far as one machine has them: network namespaces whose
links are slow, lose packets, or go down without a word.

Without the right to make namespaces: SKIPPED. Delay and loss need the kernel's netem; where it is not built in, links have a low
rate instead (tbf), and the tests say so.
"""
import concurrent.futures
import os
import shutil
import subprocess
import tempfile
import time

import harness
from process import Server
from test_kv_files import FLAGS, PLAIN, PROMPT, metric, wait_for
from test_prefill_decode import complete, context_of, said, transfer

# Runs that go on at the same time, or one that was killed and left its links, have other addresses.
NETWORK = f"10.{200 + os.getpid() % 50}.{os.getpid() // 50 % 256}"


def do(*command, check=True):
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.returncode == 0


class Network:
    """Hosts 0, 1, … on one bridge; this process can reach all of them."""

    def __init__(self, num_hosts):
        if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "tc"))):
            raise harness.Skip("namespaces need root and iproute2")
        self.name = f"q{os.getpid() % 10000}"
        self.hosts = [f"{self.name}h{i}" for i in range(num_hosts)]
        try:
            do("ip", "link", "add", self.name, "type", "bridge")
            do("ip", "addr", "add", f"{NETWORK}.1/24", "dev", self.name)
            do("ip", "link", "set", self.name, "up")
            for i, host in enumerate(self.hosts):
                do("ip", "netns", "add", host)
                do("ip", "link", "add", f"{host}o", "type", "veth", "peer", "name", f"{host}i", "netns", host)
                do("ip", "link", "set", f"{host}o", "master", self.name, "up")
                for command in (("addr", "add", f"{self.address(i)}/24", "dev", f"{host}i"), ("link", "set", f"{host}i", "up"),
                                ("link", "set", "lo", "up")):
                    do("ip", "-n", host, *command)
        except RuntimeError as error:
            self.__exit__()
            raise harness.Skip(f"no namespaces here: {error}") from None

    def address(self, i):
        return f"{NETWORK}.{10 + i}"

    def spoil(self, i):
        """Makes the host's link bad in both directions, as badly as the kernel can; says how."""
        host = self.hosts[i]
        ends = ((("tc",), f"{host}o"), (("tc", "-n", host), f"{host}i"))
        for kind in (("netem", "delay", "15ms", "5ms", "loss", "1%", "reorder", "5%"),
                     ("tbf", "rate", "4mbit", "burst", "4kb", "latency", "200ms")):
            if all(do(*tc, "qdisc", "replace", "dev", device, "root", *kind, check=False) for tc, device in ends):
                return " ".join(kind)
        raise harness.Skip("neither netem nor tbf is there")

    def set_link(self, i, state):
        do("ip", "link", "set", f"{self.hosts[i]}o", state)

    def serve(self, i, binary, *flags, verb="serve"):
        script = os.path.join(self.folder, f"host{i}")
        with open(script, "w") as file:
            file.write(f"#!/bin/sh\nexec ip netns exec {self.hosts[i]} {binary} \"$@\"\n")
        os.chmod(script, 0o755)
        return Server(script, "--host", self.address(i), *flags, verb=verb)

    def __enter__(self):
        self.folder = tempfile.mkdtemp()
        return self

    def __exit__(self, *_):
        for host in self.hosts:
            do("ip", "link", "del", f"{host}o", check=False)
            do("ip", "netns", "del", host, check=False)
        do("ip", "link", "del", self.name, check=False)
        shutil.rmtree(getattr(self, "folder", ""), ignore_errors=True)


def wait_for_backends(gateway, healthy, seconds=30):
    """Until the backends are healthy as said, in the order of `healthy`."""
    end = time.time() + seconds
    while [b["healthy"] for b in context_of(gateway).get("/quire/backends")["backends"]] != healthy:
        assert time.time() < end, context_of(gateway).get("/quire/backends")
        time.sleep(0.05)


def ask_until_answered(gateway, prompt):
    """What the gateway has begun to answer when a link goes down is cut, and asked again."""
    for _ in range(20):
        try:
            status, answer = complete(gateway, prompt, temperature=0)
        except (OSError, ValueError):
            continue
        if status == 200:
            return said(answer)
        assert status in (502, 503), answer
        time.sleep(0.1)
    raise AssertionError("no answer")


def test_prefill_and_decode_over_bad_links(binary):
    """Host 0: the gateway. 1: prefill. 2, 3: decode."""
    prompts = [f"{i}: " + PROMPT[:200 + 30 * i] for i in range(16)]
    with Server(binary, *PLAIN) as plain:
        want = [said(complete(plain, prompt, temperature=0)[1]) for prompt in prompts]
    with Network(4) as network, tempfile.TemporaryDirectory() as folder:
        def role(i, kv_role):
            return network.serve(i, binary, *FLAGS, "--kv-cache-dir", folder, *transfer(kv_role, kv_load_failure_policy="recompute"))

        with role(1, "kv_producer") as producer, role(2, "kv_consumer") as second, role(3, "kv_consumer") as third, \
                network.serve(0, binary, "--prefill-backend", producer.url, "--backend", second.url, "--backend", third.url,
                              "--health-interval-ms", "100", "--health-timeout-ms", "1000", "--connect-timeout-ms", "1000",
                              "--prefill-timeout-ms", "2000", verb="route") as gateway, \
                concurrent.futures.ThreadPoolExecutor(4) as pool:
            print(f"    links: {[network.spoil(i) for i in (1, 2, 3)][0]}", flush=True)
            wait_for_backends(gateway, [True, True, True])
            assert list(pool.map(lambda prompt: ask_until_answered(gateway, prompt), prompts)) == want
            handed = metric(producer.url, "quire:kv_handovers_total")
            taken = sum(metric(server.url, "quire:kv_takeovers_total") for server in (second, third))
            assert handed >= len(prompts) and taken >= len(prompts), (handed, taken)
            # A host falls silent while it prefills: others compute what it does not hand over.
            asked = [pool.submit(ask_until_answered, gateway, prompt) for prompt in prompts]
            network.set_link(1, "down")
            assert [answer.result() for answer in asked] == want
            network.set_link(1, "up")
            wait_for_backends(gateway, [True, True, True])
            # The same with one that decodes. It has the connections of its answers still open, of which nobody hears again.
            asked = [pool.submit(ask_until_answered, gateway, prompt) for prompt in prompts]
            network.set_link(2, "down")
            assert [answer.result() for answer in asked] == want
            network.set_link(2, "up")
            wait_for_backends(gateway, [True, True, True])
            for server in (producer, second, third):
                complete(server, "x", 1)
                end = time.time() + 30
                while metric(server.url, "vllm:kv_cache_usage_perc") != 0:
                    assert time.time() < end, "blocks are still held"
                    time.sleep(0.1)


def test_a_tier_that_two_hosts_share(binary):
    """What one host computed the other one reads, although the client's link to it is bad."""
    with Server(binary, *PLAIN) as plain:
        want = said(complete(plain, temperature=0)[1])
    with Network(2) as network, tempfile.TemporaryDirectory() as folder, \
            network.serve(0, binary, *FLAGS, "--kv-cache-dir", folder) as first, \
            network.serve(1, binary, *FLAGS, "--kv-cache-dir", folder) as second:
        network.spoil(1)
        assert said(complete(first, temperature=0)[1]) == want
        wait_for(second.url, "quire:kv_file_blocks", 6)
        status, answer = complete(second, temperature=0)
        assert status == 200 and said(answer) == want
        assert metric(second.url, "quire:kv_file_blocks_loaded_total") > 5
