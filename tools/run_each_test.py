#!/usr/bin/env python3
"""Runs the cases of GoogleTest programs in processes of few cases each, several at once.

The cases of a process that fails are run again, each in a process of its own, so that a case that
loses the device, or never ends, takes no other case with it. The output of cases that fail follows
at the end, and after it the counts.
"""

import argparse
import concurrent.futures
import os
import subprocess
import sys
import time


def cases_of(program, pattern):
    listed = subprocess.run([program, "--gtest_list_tests", f"--gtest_filter={pattern}"],
                            capture_output=True, text=True, check=True).stdout
    suite = ""
    for line in listed.splitlines():
        name = line.split("#")[0].rstrip()
        if line.startswith("  "):
            yield suite + name.strip()
        elif name.endswith("."):
            suite = name


def run(program, cases, seconds):
    """Returns the exit code, output and seconds of a process that runs `cases`."""
    start = time.monotonic()
    try:
        done = subprocess.run([program, "--gtest_brief=1", f"--gtest_filter={':'.join(cases)}"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=seconds)
        code, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as expired:
        code, output = "none: it did not end", (expired.stdout or b"").decode(errors="replace")
    return code, output, time.monotonic() - start


def run_batch(program, cases, seconds):
    """Returns a list of (cases, exit code, output, seconds): for the whole batch, or, if it fails, for
    each of its cases."""
    result = run(program, cases, seconds)
    if result[0] == 0 or len(cases) == 1:
        return [(cases, *result)]
    return [([case], *run(program, [case], seconds)) for case in cases]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="+", metavar="PROGRAM")
    parser.add_argument("--filter", default="*", help="GoogleTest's filter (default: every case)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="cases at once")
    parser.add_argument("--batch", type=int, default=1, help="cases of one process (default: 1)")
    parser.add_argument("--seconds", type=float, default=60, help="most time of a process")
    parser.add_argument("--lines", type=int, default=40, help="most lines of a failed case's output")
    options = parser.parse_args()

    batches = []
    for program in options.programs:
        cases = list(cases_of(program, options.filter))
        batches += [(program, cases[at:at + options.batch]) for at in range(0, len(cases), options.batch)]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = sum(pool.map(lambda batch: run_batch(*batch, options.seconds), batches), [])

    failed = [result for result in results if result[1] != 0]
    num_cases = sum(len(cases) for cases, *_ in results)
    skipped = sum(output.count("SKIPPED:") for _, code, output, _ in results if code == 0)
    for cases, code, output, seconds in failed:
        print(f"FAILED: {cases[0]} (exit code {code}, {seconds:.1f} s)")
        for line in output.splitlines()[:options.lines]:
            print("  " + line[:400])
    slowest = max(results, key=lambda result: result[3], default=None)
    if slowest:
        print(f"The slowest process took {slowest[3]:.1f} s, with {slowest[0][0]} first.")
    print(f"{num_cases} cases: {num_cases - len(failed) - skipped} passed, {len(failed)} failed, "
          f"{skipped} skipped")
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
