#!/usr/bin/env python3
"""Fails when an object compiled for a newer CPU defines a weak symbol.

A weak symbol (an inline function or template that was not inlined) may be the copy that the linker keeps for the whole
program, and then a CPU without that instruction set crashes far from any kernel. The files per instruction set are
therefore written without the standard library and inside anonymous namespaces; this check holds them to it.

usage: tools/check_weak_symbols.py BUILD_DIR
"""
import pathlib
import subprocess
import sys

SUFFIXES = ("_avx2.cc.o", "_avx512.cc.o", "_avx512_bf16.cc.o", "_avx512_vnni.cc.o", "_amx.cc.o")


def weak_symbols(path):
    out = subprocess.run(["nm", "-C", str(path)], check=True, capture_output=True, text=True).stdout
    return [line.strip() for line in out.splitlines() if line[17:18] in "WVuw"]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    objects = sorted(p for p in pathlib.Path(sys.argv[1]).rglob("*.o") if p.name.endswith(SUFFIXES))
    if not objects:
        sys.exit(f"{sys.argv[1]}: expected kernel objects (*_avx2.cc.o ...), found none; build quire_kernels first")
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
