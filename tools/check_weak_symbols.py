#!/usr/bin/env python3
"""Fails when an object compiled for a newer CPU defines a weak symbol.

A weak symbol (an inline function or template that was not inlined) may be the copy that the linker keeps for the whole
program, and then a CPU without that instruction set crashes far from any kernel. The files per instruction set are
therefore written without the standard library and inside anonymous namespaces; this check holds them to it.

Which objects these are says BUILD_DIR/compile_commands.json: those compiled with a flag such as -mavx2 or -mamx-tile.

usage: tools/check_weak_symbols.py BUILD_DIR
"""
import json
import pathlib
import re
import subprocess
import sys

NEWER_CPU = re.compile(r"\s-m(avx|amx|fma|f16c|bmi)")


def objects_for_newer_cpus(build_dir):
    for entry in json.loads((build_dir / "compile_commands.json").read_text()):
        if NEWER_CPU.search(entry["command"]):
            yield pathlib.Path(entry["directory"]) / re.search(r"\s-o (\S+)", entry["command"]).group(1)


def weak_symbols(path):
    out = subprocess.run(["nm", "-C", str(path)], check=True, capture_output=True, text=True).stdout
    return [line.strip() for line in out.splitlines() if line[17:18] in "WVuw"]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    objects = sorted(objects_for_newer_cpus(pathlib.Path(sys.argv[1])))
    missing = [path for path in objects if not path.exists()]
    if not objects or missing:
        sys.exit(f"{sys.argv[1]}: expected kernel objects, found none of {missing[:1] or 'any name'}; build quire_kernels first")
    failures = 0
    for path in objects:
        for symbol in weak_symbols(path):
            failures += 1
            print(f"{path}: weak symbol '{symbol}'\n  fix: put it in an anonymous namespace or stop including its header")
    if failures:
        sys.exit(f"{failures} weak symbols in {len(objects)} objects compiled for newer CPUs")
    print(f"check_weak_symbols: {len(objects)} objects, none weak")


if __name__ == "__main__":
    main()
