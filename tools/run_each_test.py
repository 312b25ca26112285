#!/usr/bin/env python3
"""Runs every case of GoogleTest programs in a process of its own, several at once.

A case that loses the device, or never ends, takes no other case with it. The output of cases that
fail follows at the end, and after it the counts.
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


def run(program, case, seconds):
    start = time.monotonic()
    try:
        done = subprocess.run([program, "--gtest_brief=1", f"--gtest_filter={case}"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=seconds)
        code, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as expired:
        code, output = "none: it did not end", (expired.stdout or b"").decode(errors="replace")
    return case, code, output, time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="+", metavar="PROGRAM")
    parser.add_argument("--filter", default="*", help="GoogleTest's filter (default: every case)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="cases at once")
    parser.add_argument("--seconds", type=float, default=60, help="most time of a case")
    parser.add_argument("--lines", type=int, default=40, help="most lines of a failed case's output")
    options = parser.parse_args()

    cases = [(program, case) for program in options.programs
             for case in cases_of(program, options.filter)]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda one: run(*one, options.seconds), cases))

    failed = [result for result in results if result[1] != 0]
    skipped = sum("SKIPPED" in output for _, code, output, _ in results if code == 0)
    for case, code, output, seconds in failed:
        print(f"FAILED: {case} (exit code {code}, {seconds:.1f} s)")
        for line in output.splitlines()[:options.lines]:
            print("  " + line[:400])
    slowest = max(results, key=lambda result: result[3], default=None)
    if slowest:
        print(f"The slowest case was {slowest[0]} with {slowest[3]:.1f} s.")
    print(f"{len(results)} cases: {len(results) - len(failed) - skipped} passed, {len(failed)} failed, "
          f"{skipped} skipped")
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
