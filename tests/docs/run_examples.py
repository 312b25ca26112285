#!/usr/bin/env python3
"""Runs the commands of a page: each ```console block is one `$ quire …` line and lines of its output.

    tests/docs/run_examples.py --binary build/release/quire docs/simulator.md

A command must succeed, and each line below it must be the beginning of a line of its standard output, in that order.
"""
import argparse
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def check(binary, block):
    """Returns the error of one block, or None."""
    command, *expected = block.strip().splitlines()
    words = shlex.split(command)
    if words[:2] != ["$", "quire"]:
        return f"expected '$ quire …', got '{command}'"
    done = subprocess.run([binary, *words[2:]], capture_output=True, text=True, timeout=120, cwd=ROOT)
    if done.returncode != 0:
        return f"exit code {done.returncode}: {done.stderr.strip()}"
    lines = iter(done.stdout.splitlines())
    for want in expected:
        if not any(line.startswith(want) for line in lines):
            return f"no line begins with '{want}' in:\n{done.stdout}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("pages", nargs="+")
    arguments = parser.parse_args()
    binary = str(pathlib.Path(arguments.binary).resolve())
    failed = count = 0
    for page in arguments.pages:
        for block in re.findall(r"^```console\n(.*?)^```", pathlib.Path(page).read_text(), re.M | re.S):
            problem = check(binary, block)
            count += 1
            if problem:
                failed += 1
                print(f"{page}: {block.splitlines()[0]}\n  {problem}")
    print(f"{count} examples, {failed} failed")
    sys.exit(1 if failed or count == 0 else 0)


if __name__ == "__main__":
    main()
