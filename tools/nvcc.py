#!/usr/bin/env python3
"""Runs nvcc and reads what ptxas says of each kernel: a kernel that spills registers to memory beyond its budget fails.

usage: nvcc.py --budget FILE -- [LAUNCHER] nvcc ARGUMENTS... -Xptxas=-v ...

The budget has a line per kernel that may spill: a part of its mangled name, the most bytes of spill stores on any target,
and the reason.
"""
import re
import subprocess
import sys

ENTRY = re.compile(r"Compiling entry function '([^']+)' for '([^']+)'")
SPILL = re.compile(r"(\d+) bytes spill stores")
NOISE = re.compile(r"ptxas info|bytes stack frame|Function properties|^\s*$|bytes gmem|Compile time")


def read_budget(path):
    budget = {}
    for line in open(path):
        if line.strip() and not line.startswith("#"):
            name, limit, _reason = line.split(None, 2)
            budget[name] = int(limit)
    return budget


def check_spills(text, budget):
    problems, entry = [], None
    for line in text.splitlines():
        match = ENTRY.search(line)
        if match:
            entry = match.groups()
        match = SPILL.search(line)
        if match and entry:
            limit = max([bytes_ for part, bytes_ in budget.items() if part in entry[0]], default=0)
            if int(match.group(1)) > limit:
                problems.append(f"{entry[0]} ({entry[1]}): spills {match.group(1)} bytes of registers, "
                                f"at most {limit} (tools/spill_budget.txt)")
            entry = None
    return problems


def main():
    split = sys.argv.index("--")
    budget = read_budget(sys.argv[sys.argv.index("--budget") + 1])
    result = subprocess.run(sys.argv[split + 1:], capture_output=True, text=True)
    sys.stdout.write(result.stdout)
    for line in result.stderr.splitlines():
        if not NOISE.search(line):
            sys.stderr.write(line + "\n")
    problems = check_spills(result.stderr, budget)
    for problem in problems:
        sys.stderr.write(f"nvcc.py: {problem}\n")
    return result.returncode or (1 if problems else 0)


if __name__ == "__main__":
    sys.exit(main())
