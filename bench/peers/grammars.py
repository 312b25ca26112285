#!/usr/bin/env python3
"""Quire's grammars beside llguidance and XGrammar: MaskBench on this machine, one thread each, in turns.

    bench/peers/grammars MASKBENCH.jsonl --tokenizer tokenizer.json [--every 12] [--engines quire,llguidance,xgrammar]

Every engine compiles each schema, and for each instance makes a mask and takes the token, over the tokens that the given
tokenizer makes of the instance's text (blanks after `,` and `:`). A worker process per engine; one that crashes, or takes
longer than --max-seconds for a schema, is started again behind that schema, which counts as not passing. Times are inside
the engine's calls; those of the peers hold what Python adds to a call (under two microseconds).
"""
import argparse
import json
import os
import select
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORKER = os.path.join(ROOT, "bench/peers/grammars_worker.py")


def percentile(values, share):
    values = sorted(values)
    return values[int(share * (len(values) - 1))] if values else 0.0


def schemas_of(path, every):
    with open(path, encoding="utf-8") as file:
        return [line for index, line in enumerate(file) if index % every == 0]


class Worker:
    """A process that answers each line with a line."""

    def __init__(self, engine, tokenizer):
        self.command = [sys.executable, WORKER, engine, tokenizer]
        self.process = None

    def ask(self, line, max_seconds):
        """Returns the answer, or None if the process ended or took too long."""
        if self.process is None:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=subprocess.DEVNULL, text=True)
            self.process.stdout.readline()  # the worker is ready
        try:
            self.process.stdin.write(line)
            self.process.stdin.flush()
            if select.select([self.process.stdout], [], [], max_seconds)[0]:
                answer = self.process.stdout.readline()
                if answer:
                    return json.loads(answer)
        except BrokenPipeError:
            pass
        self.close()
        return None

    def close(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def run_peer(engine, lines, args):
    worker = Worker(engine, args.tokenizer)
    total = {"schemas": len(lines), "passing": 0, "refused": 0, "crashes": 0, "false_accepts": 0, "false_rejects": 0,
             "mask_us": [], "compile_ms": [], "names": {}}
    for line in lines:
        answer = worker.ask(line, args.max_seconds)
        name = json.loads(line)["name"]
        if answer is None:
            total["crashes"] += 1
            total["names"][name] = "crashed or out of time"
            continue
        total["mask_us"] += answer["mask_us"]
        if answer["error"]:
            total["refused"] += 1
            total["names"][name] = answer["error"]
            continue
        total["compile_ms"].append(answer["compile_ms"])
        total["false_accepts"] += answer["false_accepts"]
        total["false_rejects"] += answer["false_rejects"]
        total["passing"] += answer["false_accepts"] + answer["false_rejects"] == 0
        if answer["false_accepts"] + answer["false_rejects"]:
            total["names"][name] = f"{answer['false_accepts']} false accepts, {answer['false_rejects']} false rejects"
    worker.close()
    return total


def run_quire(lines, args):
    """Runs `quire bench grammar --json` over the same schemas."""
    path = os.path.join(ROOT, "build/peers-grammars/schemas.jsonl")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(lines)
    command = [args.binary, "bench", "grammar", path, "--tokenizer", args.tokenizer, "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def summary(total):
    if "mask_us_p50" in total:
        return total
    out = {key: total[key] for key in ("schemas", "passing", "refused", "crashes", "false_accepts", "false_rejects")}
    for name in ("mask_us", "compile_ms"):
        for suffix, share in (("p50", 0.5), ("p99", 0.99), ("max", 1)):
            out[f"{name}_{suffix}"] = percentile(total[name], share)
    out["mask_us_mean"] = sum(total["mask_us"]) / max(1, len(total["mask_us"]))
    return out


def print_table(results):
    rows = [("schemas passing", lambda r: f"{100 * r['passing'] / r['schemas']:.1f} %"),
            ("schemas refused", lambda r: r["refused"]),
            ("crashes and timeouts", lambda r: r["crashes"]),
            ("false accepts", lambda r: r["false_accepts"]),
            ("false rejects", lambda r: r["false_rejects"]),
            ("mask mean, us", lambda r: f"{r['mask_us_mean']:.1f}"),
            ("mask p50 / p99 / max, us",
             lambda r: f"{r['mask_us_p50']:.1f} / {r['mask_us_p99']:.0f} / {r['mask_us_max']:.0f}"),
            ("compile p50 / p99 / max, ms",
             lambda r: f"{r['compile_ms_p50']:.2f} / {r['compile_ms_p99']:.1f} / {r['compile_ms_max']:.0f}")]
    print("| |" + "|".join(f" {name} " for name in results) + "|")
    print("|---" * (len(results) + 1) + "|")
    for name, value in rows:
        print(f"| {name} |" + "|".join(f" {value(result)} " for result in results.values()) + "|")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("schemas", help="MaskBench as JSON lines: objects with name, schema and tests")
    parser.add_argument("--tokenizer", required=True, help="a tokenizer.json")
    parser.add_argument("--binary", default=os.path.join(ROOT, "build/release/quire"))
    parser.add_argument("--engines", default="quire,llguidance,xgrammar")
    parser.add_argument("--every", type=int, default=1, help="take every n-th schema only")
    parser.add_argument("--max-seconds", type=float, default=60, help="for one schema of a peer")
    parser.add_argument("--notes", help="write which schemas do not pass, and why, to this file as JSON")
    args = parser.parse_args()
    lines = schemas_of(args.schemas, args.every)
    results, notes = {}, {}
    for engine in args.engines.split(","):
        start = time.monotonic()
        total = run_quire(lines, args) if engine == "quire" else run_peer(engine, lines, args)
        print(f"{engine}: {time.monotonic() - start:.0f} s", file=sys.stderr)
        results[engine] = summary(total)
        notes[engine] = total.get("names", {})
    print_table(results)
    if args.notes:
        with open(args.notes, "w", encoding="utf-8") as file:
            json.dump(notes, file, indent=1)


if __name__ == "__main__":
    main()
