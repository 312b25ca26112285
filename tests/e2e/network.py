"""Hosts of their own, as far as one machine has them: network namespaces whose links are slow, lose packets, or go down without a word.

Without the right to make namespaces: SKIPPED. Delay and loss need the kernel's netem; where it is not built in, packets are lost by
nftables, and without `nft` links have a low rate instead (tbf).
"""
import os
import shutil
import signal
import subprocess
import tempfile

import harness
from process import Server

# The address depends on the process id, because other runs may exist at the same time, or may have
# been killed and have left their links.
NETWORK = f"10.{200 + os.getpid() % 50}.{os.getpid() // 50 % 256}"


def do(*command, check=True):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.returncode == 0


class Network:
    """Hosts 0, 1, … on one bridge. This process can reach all of them."""

    def __init__(self, num_hosts):
        if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "tc"))):
            raise harness.Skip("namespaces need root and iproute2")
        self.name = f"q{os.getpid() % 10000}"
        self.hosts = [f"{self.name}h{i}" for i in range(num_hosts)]
        self.folder = tempfile.mkdtemp()
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

    def spoil(self, i, loss_percent=10):
        """Makes the host's link bad in both directions, as far as the kernel can, and returns a description."""
        host = self.hosts[i]
        ends = (((), f"{host}o"), (("ip", "netns", "exec", host), f"{host}i"))
        netem = ("netem", "delay", "15ms", "5ms", "loss", f"{loss_percent}%", "reorder", "5%")
        if all(do(*where, "tc", "qdisc", "replace", "dev", device, "root", *netem, check=False) for where, device in ends):
            return " ".join(netem)
        if shutil.which("nft") and all(do(*where, "nft", self._loss(device, loss_percent), check=False) for where, device in ends):
            return f"nftables, loss {loss_percent}%"
        tbf = ("tbf", "rate", "4mbit", "burst", "4kb", "latency", "200ms")
        if all(do(*where, "tc", "qdisc", "replace", "dev", device, "root", *tbf, check=False) for where, device in ends):
            return " ".join(tbf)
        raise harness.Skip("neither netem nor nftables nor tbf is there")

    @staticmethod
    def _loss(device, percent):
        return (f"add table netdev {device}; add chain netdev {device} loss {{ type filter hook ingress device {device} priority 0; }}; "
                f"add rule netdev {device} loss numgen random mod 100 < {percent} drop")

    def set_link(self, i, state):
        do("ip", "link", "set", f"{self.hosts[i]}o", state)

    def program(self, i, binary, *before):
        """Returns a script that runs the program on the host, with `before` in front of its command."""
        script = os.path.join(self.folder, f"host{i}")
        with open(script, "w") as file:
            file.write(f"#!/bin/sh\nexec ip netns exec {self.hosts[i]} {' '.join(before)} {os.path.abspath(binary)} \"$@\"\n")
        os.chmod(script, 0o755)
        return script

    def serve(self, i, binary, *flags, verb="serve"):
        return Server(self.program(i, binary), "--host", self.address(i), *flags, verb=verb)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for host in self.hosts:
            if shutil.which("nft"):
                do("nft", "delete", "table", "netdev", f"{host}o", check=False)
            do("ip", "link", "del", f"{host}o", check=False)
            do("ip", "netns", "del", host, check=False)
        do("ip", "link", "del", self.name, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


class HostRank:
    """A rank in a process namespace of its own, as on another machine, so that it shares no memory with the others."""

    def __init__(self, network, i, binary, flags):
        script = network.program(i, binary, "unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
        if i == 0:
            self.server = Server(script, "--host", network.address(0), *flags)
            self.process = self.server.process
        else:
            self.log = tempfile.TemporaryFile("w+")
            self.process = subprocess.Popen([script, "serve", *flags], stdout=self.log, stderr=self.log)

    def send_signal(self, number):
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as file:
            for pid in file.read().split():
                os.kill(int(pid), number)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()  # this also kills the program that it runs
        self.process.wait()


class HostRanks:
    """A server whose two ranks are on hosts 0 and 1. Raises RuntimeError if the ranks did not find each other."""

    def __init__(self, network, binary, *more):
        flags = ("--nnodes", "2", "--master-addr", network.address(0), "--threads", "1", "--hardware", "none", *more)
        self.second = HostRank(network, 1, binary, (*flags, "--node-rank", "1"))
        try:
            self.first = HostRank(network, 0, binary, (*flags, "--node-rank", "0"))
        except RuntimeError:
            self.second.end()
            raise
        self.url = self.first.server.url

    def has_ended(self):
        return self.first.process.poll() is not None or self.second.process.poll() is not None

    def stop(self):
        """Stops the ranks as a launcher does: the first finishes its requests, and the other ends with it."""
        self.first.send_signal(signal.SIGTERM)
        return [rank.process.wait(60) for rank in (self.first, self.second)]

    def end(self):
        for rank in (self.first, self.second):
            rank.end()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
