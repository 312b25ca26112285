"""Slurm for tests: a controller here, and a node on each of a few hosts of their own. Not installed: SKIPPED (Debian: slurm-wlm, munge)."""
import os
import shutil
import subprocess
import time

import harness
from network import NETWORK, Network
from test_ranks import free_port

CONFIG = """ClusterName=quire
SlurmctldHost={here}({network}.1)
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
SlurmdUser=root
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/linear
ReturnToService=2
{nodes}
PartitionName=all Nodes=ALL Default=YES State=UP
"""


class Slurm:
    """Runs for the length of `with Slurm(num_nodes) as slurm:`."""

    def __init__(self, num_nodes):
        missing = [name for name in ("munged", "slurmctld", "slurmd", "srun") if shutil.which(name) is None]
        if missing:
            raise harness.Skip(f"no {', '.join(missing)} here (Debian: slurm-wlm, munge)")
        self.network = Network(num_nodes)
        self.folder = self.network.folder
        self.daemons = []
        self.environment = {**os.environ, "SLURM_CONF": self.path("slurm.conf")}
        self._write_files()

    def path(self, name):
        return os.path.join(self.folder, name)

    def _write_files(self):
        here = os.uname().nodename.split(".")[0]
        hosts = [(self.network.address(i), host) for i, host in enumerate(self.network.hosts)]
        nodes = "\n".join(f"NodeName={host} NodeAddr={address} Port=6818 CPUs={os.cpu_count()}" for address, host in hosts)
        with open(self.path("slurm.conf"), "w") as file:
            file.write(CONFIG.format(here=here, network=NETWORK, port=free_port(), folder=self.folder, nodes=nodes))
        # The names of the nodes, which a cluster's name server would resolve.
        with open(self.path("hosts"), "w") as file:
            file.writelines(f"{address} {host}\n" for address, host in [("127.0.0.1", "localhost"), (f"{NETWORK}.1", here), *hosts])
        with open(self.path("key"), "wb") as file:
            file.write(os.urandom(128))
        os.chmod(self.path("key"), 0o400)
        os.chmod(self.folder, 0o755)
        os.mkdir(self.path("state"))

    def _start(self, name, *command):
        with open(self.path(f"{name}.log"), "w") as log:
            self.daemons.append(subprocess.Popen(command, stdout=log, stderr=log, env=self.environment))

    def __enter__(self):
        try:
            self._start("munged", "munged", "--foreground", "--force", *(f"--{kind}-file={self.path(f'munge.{kind}')}" for kind in
                        ("pid", "log", "seed")), f"--key-file={self.path('key')}", f"--socket={self.path('munge.socket')}")
            self._wait(lambda: os.path.exists(self.path("munge.socket")))
            self._start("slurmctld", "slurmctld", "-D", "-i", "-f", self.path("slurm.conf"))
            for host in self.network.hosts:
                setup = f"mount --bind {self.path('hosts')} /etc/hosts && hostname {host} && exec slurmd -D -f {self.path('slurm.conf')}"
                self._start(host, "nsenter", f"--net=/run/netns/{host}", "unshare", "--uts", "--mount", "sh", "-c", setup)
            self._wait(self._all_idle)
            return self
        except BaseException:
            self.__exit__()
            raise

    def _all_idle(self):
        done = subprocess.run(["sinfo", "--noheader", "--Node", "--format=%T"], capture_output=True, text=True, env=self.environment)
        return done.stdout.split() == ["idle"] * len(self.network.hosts)

    def _wait(self, is_done):
        end = time.time() + 120
        while not is_done():
            dead = [daemon.args[0] for daemon in self.daemons if daemon.poll() is not None]
            assert not dead and time.time() < end, (dead, self.logs())
            time.sleep(0.1)

    def logs(self):
        texts = []
        for name in sorted(os.listdir(self.folder)):
            if name.endswith(".log"):
                with open(self.path(name), errors="replace") as file:
                    texts.append(f"{name}: {file.read()[-2000:]}")
        return "\n".join(texts)

    def run(self, *command):
        return subprocess.run(["srun", *command], capture_output=True, text=True, timeout=240, env=self.environment)

    def start(self, *command, **kwargs):
        return subprocess.Popen(["srun", *command], env=self.environment, **kwargs)

    def __exit__(self, *_):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self.network.__exit__()
