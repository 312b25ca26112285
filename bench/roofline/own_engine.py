#!/usr/bin/env python3
"""Measures whether the simulator predicts Quire itself on this machine: calibrated on one workload, judged on three others.

    bench/roofline/own_engine.py measure FOLDER [NAME…]     serve a shape, send each workload (all, or those named)
    bench/roofline/own_engine.py predict FOLDER             calibrate on the step logs of `calibration`, simulate the rest

`measure` sends each workload in several short runs, in turns, so that a machine that drifts over minutes is the same
for all of them. It writes one folder for each run: what was sent and when (sent.jsonl), the step log, the client's
figures. `predict` fits nothing but the steps of `calibration`; of the others it reads the arrivals, lengths and shared
prefixes. It judges the means of a workload's runs, and prints each run with --each.
"""
import argparse
import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "serving"))
from server import BINARY, Server  # noqa: E402

ENGINE = ["--max-model-len", "2048", "--max-num-batched-tokens", "128", "--max-num-seqs", "32",
          "--num-gpu-blocks-override", "2048"]
# Requests per second (times --load), arguments of `quire simulate`, and a seed. The loads are below what one slow core can do.
# Requests that would arrive after --last-arrival-s are left out. The calibration workload must contain the row counts of the
# others, because kernels have variants for few rows: eight rows may cost less than four.
WORKLOADS = {
    "calibration": (0.6, "--arrivals gamma:2 --input-len lognormal:100:90 --output-len uniform:24:104", 11),
    "bursty": (0.4, "--arrivals gamma:2.5 --input-len uniform:32:128 --output-len uniform:32:96", 12),
    "long-prefill": (0.25, "--input-len uniform:200:600 --output-len uniform:48:112", 13),
    "prefix-heavy": (0.6, "--prefix-len 256 --num-prefixes 3 --input-len uniform:16:64 --output-len uniform:32:96", 14),
}
FIGURES = (("TPOT ms", "mean_tpot_ms"), ("tokens/s", "output_throughput"), ("TTFT p50 ms", "median_ttft_ms"),
           ("E2E ms", "mean_e2el_ms"))


def quire(args, *command, quiet=True, may_say=None):
    """Runs a command to its end, and returns False if it failed with a message that contains `may_say`."""
    done = subprocess.run([args.binary, *map(str, command)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        if may_say is not None and may_say in done.stderr:
            return False
        sys.exit(f"quire {' '.join(map(str, command))}: {done.stderr.strip()}")
    if not quiet:
        print(done.stdout.strip())
    return True


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def next_run(folder, name):
    """Returns FOLDER/NAME-1, or -2 if that exists, and so on."""
    number = 1
    while (folder / f"{name}-{number}").exists():
        number += 1
    run = folder / f"{name}-{number}"
    run.mkdir(parents=True)
    return run


def measure(args, name):
    run = next_run(args.folder, name)
    machine = args.folder / "machine.json"
    if not machine.exists():
        quire(args, "roofline", "probe", "--threads", args.threads, "--output", machine, quiet=False)
    # The first line of the step log describes the model, and is written when the server has stopped. For making a workload, any
    # model description will do.
    rate, flags, seed = WORKLOADS[name]
    seed += 100_000 * args.seed + 100 * int(run.name.rsplit("-", 1)[1])
    trace = run / "asked.jsonl"
    if not quire(args, "simulate", args.any_model, "--rate", rate * args.load, *flags.split(), "--duration",
                 args.last_arrival_s, "--seed", seed, "--save-trace", trace, may_say="expected at least one request"):
        print(f"{run.name}: no request arrives in {args.last_arrival_s} s", flush=True)
        return
    with Server(args.binary, ["--shape", args.shape, "--threads", args.threads, *ENGINE, "--step-log", run / "steps.jsonl"]) as server:
        quire(args, "bench", "serve", "--port", server.port, "--num-warmups", "1", "--random-input-len", "200",
              "--random-output-len", "8", "--trace", trace, "--save-trace", run / "sent.jsonl", "--save-result",
              run / "measured.json")
    result = read(run / "measured.json")
    print(f"{run.name}: {result['completed']} requests in {result['duration']:.1f} s, "
          + ", ".join(f"{label} {result[key]:.1f}" for label, key in FIGURES), flush=True)


def runs_of(folder, name):
    return sorted(folder.glob(f"{name}-*/measured.json"))


def joined_log(folder):
    """Writes the steps of all calibration runs under the header of the first, as one log."""
    logs = [(path.parent / "steps.jsonl").read_text(encoding="utf-8") for path in runs_of(folder, "calibration")]
    joined = folder / "calibration.jsonl"
    joined.write_text(logs[0] + "".join(log.split("\n", 1)[1] for log in logs[1:]), encoding="utf-8")
    return joined


def predict(args):
    log = joined_log(args.folder)
    fitted = args.folder / "fitted.json"
    quire(args, "roofline", "calibrate", log, "--hardware", args.folder / "machine.json", "--output", fitted, "--name", "this machine", quiet=False)
    print("\n| workload | requests | " + " | ".join(f"{label}: measured, predicted, error" for label, _ in FIGURES) + " |")
    print("|---|---|" + "---|" * len(FIGURES))
    for name in WORKLOADS:
        runs = [path.parent for path in runs_of(args.folder, name)]
        for run in runs:
            quire(args, "simulate", log, "--hardware", fitted, *ENGINE, "--trace", run / "sent.jsonl", "--json",
                  run / "predicted.json")
            if args.each:
                print_row(run.name, [run])
        if runs:
            print_row(f"{name}, {len(runs)} runs", runs)


def print_row(label, runs):
    """Prints the output tokens over the time of all runs, and the mean of the runs' own figures, weighted by their requests."""
    measured = [read(run / "measured.json") for run in runs]
    predicted = [read(run / "predicted.json") for run in runs]
    weights = [result["completed"] for result in measured]

    def mean(key, results):
        if key == "output_throughput":
            return sum(result["total_output_tokens"] for result in results) / sum(result["duration"] for result in results)
        return sum(weight * result[key] for weight, result in zip(weights, results)) / sum(weights)

    def cell(key):
        of_measured, of_predicted = mean(key, measured), mean(key, predicted)
        return f"{of_measured:.1f}, {of_predicted:.1f}, {100 * (of_predicted / of_measured - 1):+.1f} %"

    print(f"| {label} | {sum(weights)} | " + " | ".join(cell(key) for _, key in FIGURES) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("measure", "predict"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", choices=[*WORKLOADS, []])
    parser.add_argument("--binary", default=BINARY)
    parser.add_argument("--threads", default="1", help="of the engine; one core is left to client and server")
    parser.add_argument("--shape", default="qwen2.5-0.5b")
    parser.add_argument("--seed", type=int, default=0, help="other requests of the same kinds")
    parser.add_argument("--load", type=float, default=1, help="times the arrival rates: less on a slower machine")
    parser.add_argument("--last-arrival-s", default="20")
    parser.add_argument("--rounds", type=int, default=16, help="runs of each workload, in turns (the default: 25 minutes)")
    parser.add_argument("--each", action="store_true", help="print every run, too")
    args = parser.parse_args()
    args.any_model = Path(__file__).resolve().parents[2] / "docs/examples/llama-3.1-8b.json"
    args.folder.mkdir(parents=True, exist_ok=True)
    if args.verb == "predict":
        predict(args)
        return
    for _ in range(args.rounds):
        for name in args.names or WORKLOADS:
            measure(args, name)


if __name__ == "__main__":
    main()
