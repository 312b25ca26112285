#!/usr/bin/env python3
"""Measures how busy the stages of a pipeline are, and whether the simulator says the same.

    bench/ranks/bubbles.py FOLDER [--shape llama-3.2-1b] [--streams 16]

Serves a shape with one thread and one stage, fits a description of that machine to its steps, and serves the same shape in two
stages of a thread each. A stage's thread sleeps while it has nothing to do, so that its time on a CPU is the time in which it works. Of
the middle half of the run, and of the same part of the simulated one, it prints the share of their time in which the stages work;
what is missing to 100 % is the bubble.
"""
import argparse
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "serving"))
from server import BINARY, Server  # noqa: E402

STAGES = 2
STAGE_LINK_GB_PER_S = 10  # a transfer between stages is a copy in memory, some microseconds of a step of many milliseconds
# Streams, prompt tokens and output tokens of the runs that the description is fitted to.
CALIBRATION = ((1, 64, 24), (2, 16, 24), (4, 16, 28), (8, 16, 36), (8, 32, 24), (16, 16, 20))


class CpuTimes(threading.Thread):
    """Samples the CPU seconds of each thread of a process, until stop()."""

    def __init__(self, pid):
        super().__init__()
        self.tasks = Path(f"/proc/{pid}/task")
        self.samples = []  # (time, {thread: CPU seconds})
        self.ended = threading.Event()

    def run(self):
        while not self.ended.wait(0.1):
            times = {task.name: int((task / "schedstat").read_text().split()[0]) / 1e9 for task in self.tasks.iterdir()}
            self.samples.append((time.monotonic(), times))

    def stop(self):
        self.ended.set()
        self.join()

    def busy_shares(self):
        """Returns the busy shares of the threads with the most work in the middle half of the time in which any of them worked."""
        totals = [sum(times.values()) for _, times in self.samples]
        least, most = totals[0], totals[-1]
        inside = [sample for sample, total in zip(self.samples, totals) if 0.25 < (total - least) / (most - least) < 0.75]
        (begin, before), (end, after) = inside[0], inside[-1]
        shares = [(seconds - before.get(task, 0)) / (end - begin) for task, seconds in after.items()]
        return sorted(shares, reverse=True)[:STAGES]


def quire(args, *command):
    done = subprocess.run([args.binary, *map(str, command)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"quire {' '.join(map(str, command))}: {done.stderr.strip()}")


def ask(args, server, streams, input_len, output_len, *more):
    quire(args, "bench", "serve", "--port", server.port, "--num-prompts", streams, "--random-input-len", input_len,
          "--random-output-len", output_len, *more)


def fit(args, log, machine):
    """Writes the description of one thread of this machine."""
    quire(args, "roofline", "probe", "--threads", "1", "--output", args.folder / "probed.json")
    with Server(args.binary, ["--shape", args.shape, "--threads", "1", *args.engine, "--step-log", log]) as server:
        for streams, input_len, output_len in CALIBRATION:
            ask(args, server, streams, input_len, output_len)
    quire(args, "roofline", "calibrate", log, "--hardware", args.folder / "probed.json", "--output", machine, "--name", "one thread",
          "--allow-overloaded")
    description = json.loads(machine.read_text())
    description["device_link"]["gb_per_s"] = STAGE_LINK_GB_PER_S
    machine.write_text(json.dumps(description))


def measure(args):
    """Returns the busy shares of the stages, and output tokens per second."""
    result = args.folder / "measured.json"
    flags = ["--shape", args.shape, "--threads", str(STAGES), "--pipeline-parallel-size", str(STAGES), *args.engine]
    with Server(args.binary, flags) as server:
        cpu_times = CpuTimes(server.process.pid)
        cpu_times.start()
        ask(args, server, args.streams, args.input_len, args.output_len, "--save-trace", args.folder / "sent.jsonl", "--save-result", result)
        cpu_times.stop()
    return cpu_times.busy_shares(), json.loads(result.read_text())["output_throughput"]


def predict(args, log, machine):
    """Returns the busy share of all stages together, and output tokens per second."""
    trace, result = args.folder / "trace.json", args.folder / "predicted.json"
    quire(args, "simulate", log, "--hardware", machine, "--pp", STAGES, *args.engine, "--trace", args.folder / "sent.jsonl",
          "--chrome-trace", trace, "--json", result)
    steps = [(event["ts"], event["dur"]) for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
    inside = steps[len(steps) // 4:len(steps) * 3 // 4]
    work = sum(duration for _, duration in inside[:-1])
    return work / (STAGES * (inside[-1][0] - inside[0][0])), json.loads(result.read_text())["output_throughput"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--binary", default=BINARY)
    parser.add_argument("--shape", default="llama-3.2-1b")
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--input-len", type=int, default=16)
    parser.add_argument("--output-len", type=int, default=40)
    args = parser.parse_args()
    args.engine = ["--max-model-len", "256", "--max-num-batched-tokens", "256", "--num-gpu-blocks-override", "512"]
    args.folder.mkdir(parents=True, exist_ok=True)
    log, machine = args.folder / "steps.jsonl", args.folder / "machine.json"
    if not machine.exists():
        fit(args, log, machine)
    shares, measured = measure(args)
    share, predicted = predict(args, log, machine)
    mean = sum(shares) / len(shares)
    print(f"stages busy: measured {100 * mean:.1f} % ({', '.join(f'{100 * one:.1f}' for one in shares)}), simulated {100 * share:.1f} %, "
          f"{100 * (share / mean - 1):+.1f} %")
    print(f"output tokens/s: measured {measured:.1f}, simulated {predicted:.1f}, {100 * (predicted / measured - 1):+.1f} %")


if __name__ == "__main__":
    main()
