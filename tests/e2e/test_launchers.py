"""Ranks and replicas that launchers of others start: Open MPI, Slurm, Ray. Those that are not installed: SKIPPED."""
import os
import shutil
import signal
import subprocess
import tempfile

import harness
from command import GREEDY, ROOT, run
from process import Server
from slurm import Slurm
from test_ranks import free_port

RAY = os.path.join(ROOT, "build", "ray", "bin", "python")
ONE_RANK = ("generate", "--threads", "1", *GREEDY, "--quiet")


def test_under_mpirun(binary):
    if shutil.which("mpirun") is None:
        raise harness.Skip("no mpirun here (Debian: openmpi-bin)")
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", binary, *ONE_RANK, "--master-port", str(free_port())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, "PMIX_MCA_gds": "hash"})
    alone = run(binary, *ONE_RANK)
    assert done.returncode == 0 and done.stdout == alone.stdout, (done, alone)


def test_under_slurm(binary):
    """Runs one rank on each of two nodes, and two ranks on one node."""
    alone = run(binary, *ONE_RANK)
    external = ("--distributed-executor-backend", "external_launcher")
    with Slurm(2) as slurm:
        for nodes in ("2", "1"):
            done = slurm.run("-N", nodes, "-n", "2", os.path.abspath(binary), *ONE_RANK, *external)
            assert done.returncode == 0 and done.stdout == alone.stdout, (nodes, done, alone, slurm.logs())
        # A rank that fails ends the step, and its exit code becomes Slurm's.
        done = slurm.run("-N", "2", "-n", "2", os.path.abspath(binary), *ONE_RANK, *external, "--tensor-parallel-size", "4")
        assert done.returncode == 1 and "expected 2" in done.stderr, (done, slurm.logs())


def test_under_ray_serve(binary):
    """examples/ray_serve.py must pass requests and answers on unchanged."""
    if not os.path.exists(RAY):
        raise harness.Skip("no build/ray here (tools/requirements-ray.txt)")
    body = {"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0, "logprobs": 2}
    with Server(binary, "--hardware", "none") as server:
        want = harness.Context(server.url, "none", 0).post("/v1/completions", body)["choices"]
    port = free_port()
    environment = {**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    with tempfile.TemporaryFile("w+") as log, tempfile.TemporaryDirectory() as folder:
        serve = subprocess.Popen([RAY, os.path.join(ROOT, "examples", "ray_serve.py"), f"quire={os.path.abspath(binary)}",
                                  "flags=--hardware none", f"port={port}"], stdout=log, stderr=log, start_new_session=True,
                                 env={**environment, "RAY_TMPDIR": folder})
        try:
            context = harness.Context(f"http://127.0.0.1:{port}", "none", 0)
            try:
                context.wait_ready(300)
            except SystemExit:
                log.seek(0)
                raise AssertionError(log.read()) from None
            assert context.post("/v1/completions", body)["choices"] == want
            status, headers, text = context.request("POST", "/v1/completions", {**body, "stream": True})
            assert status == 200 and headers["Content-Type"].startswith("text/event-stream") and text.rstrip().endswith("[DONE]"), text
            status, _, text = context.request("POST", "/v1/completions", {"prompt": 7})
            assert status == 400 and "prompt" in text, text
        finally:
            end_with_children(serve)


def end_with_children(process):
    process.send_signal(signal.SIGINT)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
