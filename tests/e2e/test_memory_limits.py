"""RLIMIT_AS stands for a small machine. Not for sanitized binaries, which take terabytes of address space."""
import resource
import subprocess

from process import Server


def test_little_memory_is_planned_with(binary):
    """The start must print a plan that fits, or one clear line."""
    def limited(mib):
        return lambda: resource.setrlimit(resource.RLIMIT_AS, (mib << 20, mib << 20))
    command = [binary, "generate", "-p", "x", "--max-tokens", "2", "--threads", "1"]
    fits = subprocess.run(command, preexec_fn=limited(500), capture_output=True, text=True, timeout=120)
    assert fits.returncode == 0 and fits.stdout.startswith("x"), fits
    many = subprocess.run([*command[:-1], "500"], preexec_fn=limited(500), capture_output=True, text=True, timeout=120)
    assert many.returncode == 1 and "expected 500 compute threads" in many.stderr.splitlines()[-1], many
    tight = subprocess.run(command, preexec_fn=limited(120), capture_output=True, text=True, timeout=120)
    assert tight.returncode == 1 and tight.stderr.strip().splitlines()[-1].startswith("quire: "), tight


def test_terminate_without_memory_ends_as_ever(binary):
    with Server(binary) as server:
        resource.prlimit(server.process.pid, resource.RLIMIT_AS, (1 << 20, 1 << 20))  # less than it uses
        server.terminate()
        assert server.wait() == 0, server.output()
