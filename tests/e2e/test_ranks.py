"""Several ranks of one model: every answer is the one that a single rank gives, bit for bit, and none is lost in silence."""
import concurrent.futures
import os
import signal
import socket
import subprocess
import tempfile
import time

import harness
from command import run
from process import Server
from test_adapters import make_adapters

PROMPTS = ["Once upon a time", "The sun", "A dog named Max went to the park because", "x" * 300]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ask_all(server):
    context = harness.Context(server.url, "none", server.process.pid)
    context.wait_ready(60)

    def ask(i):
        body = {"model": context.model, "prompt": PROMPTS[i % len(PROMPTS)], "max_tokens": 24, "seed": i,
                "temperature": 0.0 if i % 2 else 1.0, "logprobs": 4, "ignore_eos": True}
        choice = context.post("/v1/completions", body)["choices"][0]
        return choice["text"], choice["logprobs"]["token_logprobs"], choice["logprobs"]["top_logprobs"]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return list(pool.map(ask, range(16)))


def answers(binary, *flags):
    with Server(binary, *flags) as server:
        return ask_all(server)


class Ranks:
    """A server whose ranks are processes: `self.server` is the first, `self.others` are the rest."""

    def __init__(self, binary, size, *more):
        flags = ("--nnodes", str(size), "--master-addr", "127.0.0.1", "--master-port", str(free_port()), "--threads", "1", *more)
        self.log = tempfile.TemporaryFile("w+")
        self.others = [subprocess.Popen([binary, "serve", *flags, "--node-rank", str(rank)], stdout=self.log,
                                        stderr=self.log) for rank in range(1, size)]
        self.server = Server(binary, *flags, "--node-rank", "0")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in (self.server.process, *self.others):
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait(10)


def test_answers_of_several_ranks_are_those_of_one(binary):
    one = answers(binary, "--threads", "1")
    for num_ranks in ("2", "4"):
        assert answers(binary, "--tensor-parallel-size", num_ranks) == one, num_ranks
    with Ranks(binary, 2) as ranks:
        assert ask_all(ranks.server) == one
        ranks.server.stop()  # the others are told and end by themselves
        assert [other.wait(10) for other in ranks.others] == [0]
    with Ranks(binary, 4) as ranks:
        assert ask_all(ranks.server) == one


def test_answers_of_stages_in_processes_are_those_of_one(binary):
    one = answers(binary, "--threads", "1")
    for size, *flags in ((2, "-pp", "2"), (4, "-pp", "2"), (3, "-pp", "3", "--max-num-batched-tokens", "64")):
        with Ranks(binary, size, *flags) as ranks:
            assert ask_all(ranks.server) == one, flags
            ranks.server.stop()
            assert [other.wait(10) for other in ranks.others] == [0] * (size - 1)
    with Ranks(binary, 2, "-pp", "2", "--speculative-config", '{"method": "suffix"}') as ranks:
        assert ask_all(ranks.server) == one
        context = harness.Context(ranks.server.url, "none", ranks.server.process.pid)
        body = {"model": context.model, "prompt": "Once", "max_tokens": 40, "structured_outputs": {"choice": ["yes", "no"]}}
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for answer in pool.map(lambda _: context.post("/v1/completions", body), range(8)):
                assert answer["choices"][0]["text"] in ("yes", "no"), answer


def test_adapters_in_processes(binary):
    with tempfile.TemporaryDirectory() as folder:
        make_adapters(folder, a=1)
        lora = ("--lora-modules", "a=" + os.path.join(folder, "a"))

        def ask(server):
            context = harness.Context(server.url, "none", server.process.pid)
            context.wait_ready(60)
            body = {"prompt": "Once upon a time", "max_tokens": 24, "temperature": 0, "logprobs": 2}
            return [context.post("/v1/completions", {**body, "model": model})["choices"][0]["logprobs"]
                    for model in (context.model, "a", context.model, "a")]

        with Server(binary, "--threads", "1", *lora) as server:
            want = ask(server)
        assert want[0] == want[2] != want[1] == want[3]
        with Ranks(binary, 2, *lora) as ranks:
            assert ask(ranks.server) == want


def test_numbers_of_ranks_that_cannot_be(binary):
    for said, *flags in (("in [1, 64]", "--tensor-parallel-size", "0"), ("in [1, 64]", "--tensor-parallel-size", "65"),
                         ("heads", "--tensor-parallel-size", "64"), ("--node-rank", "--nnodes", "2", "--node-rank", "2"),
                         ("--master-addr", "--nnodes", "2"), ("in [1, 64]", "--nnodes", "65"),
                         ("expected 2", "--nnodes", "2", "--master-addr", "x", "--tensor-parallel-size", "4"),
                         ("mpirun", "--distributed-executor-backend", "external_launcher")):
        done = run(binary, "generate", "-p", "x", *flags)
        assert done.returncode == 1 and said in done.stderr, (flags, done)


def end_of_group(ranks, harm):
    """Harms a rank while 8 requests run. Each must get an answer, none may time out, and the server must end."""
    context = harness.Context(ranks.server.url, "none", ranks.server.process.pid)
    context.wait_ready(60)
    body = {"model": context.model, "prompt": "Once", "max_tokens": 400, "ignore_eos": True}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(context.request, "POST", "/v1/completions", body, 120) for _ in range(8)]
        time.sleep(0.1)
        harm()
        results = [call.result()[0] for call in calls]
    assert all(status in (200, 503) for status in results), results
    if 503 in results:
        assert ranks.server.wait(60) == 3, ranks.server.output()
    return results


def test_a_rank_that_dies_or_stops_is_noticed(binary):
    for number in (signal.SIGKILL, signal.SIGSTOP):
        with Ranks(binary, 2) as ranks:
            results = end_of_group(ranks, lambda: ranks.others[0].send_signal(number))  # noqa: B023
            assert 503 in results, (number, results)


def test_a_stage_that_dies_or_stops_is_noticed(binary):
    for rank, number in ((1, signal.SIGKILL), (2, signal.SIGKILL), (3, signal.SIGKILL), (2, signal.SIGSTOP), (3, signal.SIGSTOP)):
        with Ranks(binary, 4, "-pp", "2") as ranks:
            results = end_of_group(ranks, lambda: ranks.others[rank - 1].send_signal(number))  # noqa: B023
            assert 503 in results, (rank, number, results)
            assert f"rank {rank} of 4" in ranks.server.output(), ranks.server.output()
            ends = [other.wait(60) for at, other in enumerate(ranks.others) if at != rank - 1]
            assert ends == [3, 3], (rank, number, ends)
    assert not [name for name in os.listdir("/dev/shm") if "quire" in name]


def test_a_lost_rank_is_noticed_before_any_request(binary):
    for size, *flags in ((2,), (4, "-pp", "2")):
        with Ranks(binary, size, *flags) as ranks:
            context = harness.Context(ranks.server.url, "none", ranks.server.process.pid)
            context.wait_ready(60)
            assert context.request("GET", "/health", None, 10)[0] == 200
            ranks.others[-1].kill()
            assert ranks.server.wait(20) == 3, ranks.server.output()
            assert f"rank {size - 1} of {size}" in ranks.server.output(), ranks.server.output()


def test_ranks_end_when_the_first_one_dies(binary):
    for size, *flags in ((2,), (4, "-pp", "2")):
        with Ranks(binary, size, *flags) as ranks:
            ranks.server.process.kill()
            assert [other.wait(10) for other in ranks.others] == [3] * (size - 1)


def test_ranks_that_were_started_otherwise_say_so(binary):
    flags = ("--nnodes", "2", "--master-addr", "127.0.0.1", "--master-port", str(free_port()))
    first = subprocess.Popen([binary, "serve", "--port", "0", *flags], stderr=subprocess.PIPE, text=True)
    other = run(binary, "serve", *flags, "--node-rank", "1", "--max-model-len", "128")
    _, said = first.communicate(timeout=60)
    assert other.returncode == 1 and first.returncode == 1, (other, said)
    assert "model length" in other.stderr and "model length" in said, (other.stderr, said)


def test_variables_of_launchers(binary):
    greedy = ("generate", "--threads", "1", "-p", "Once upon a time", "--max-tokens", "16", "--temperature", "0", "--quiet")
    alone = run(binary, *greedy).stdout
    external = ("--distributed-executor-backend", "external_launcher")
    for flags, of_rank in (
            (external, lambda rank: {"RANK": rank, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "LOCAL_WORLD_SIZE": "2"}),
            (external, lambda rank: {"SLURM_PROCID": rank, "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "2",
                                     "SLURM_STEP_NODELIST": "localhost"}),
            ((), lambda rank: {"LWS_WORKER_INDEX": rank, "LWS_GROUP_SIZE": "2", "LWS_LEADER_ADDRESS": "localhost"}),
            ((), lambda rank: {"PMI_RANK": rank, "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2"})):
        port = ("--master-port", str(free_port()))
        ranks = [subprocess.Popen([binary, *greedy, *flags, *port], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env={**os.environ, **of_rank(str(rank))}) for rank in range(2)]
        said = [rank.communicate(timeout=60) for rank in ranks]
        assert [rank.returncode for rank in ranks] == [0, 0] and said[0][0] == alone and said[1][0] == "", (said, alone)
    bad = run(binary, *greedy, env={**os.environ, "PMI_RANK": "7", "PMI_SIZE": "2"})
    assert bad.returncode == 1 and "MPICH" in bad.stderr and "7" in bad.stderr, bad
    for port in ("70000", "0", "x"):
        bad = run(binary, *greedy, *external, env={**os.environ, "RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": port})
        want = f"torchrun: MASTER_PORT: expected an integer in [1, 65535], got '{port}'"
        assert bad.returncode == 1 and want in bad.stderr, (port, bad)
