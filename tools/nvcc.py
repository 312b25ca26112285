#!/usr/bin/env python3
"""Runs nvcc and reads what ptxas says of each kernel: a kernel that spills registers to memory beyond its budget fails.

usage: nvcc.py --budget FILE -- [LAUNCHER] nvcc ARGUMENTS... -Xptxas=-v ... -o OBJECT
       nvcc.py --table FOLDER

The first form keeps what it read beside the object, in OBJECT.resources; the second prints all of it below FOLDER.

The budget has a line per kernel that may spill: a part of its mangled name, the most bytes of spill stores on any target,
and the reason.
"""
import collections
import pathlib
import re
import subprocess
import sys

ENTRY = re.compile(r"Compiling entry function '([^']+)' for '([^']+)'")
SPILL = re.compile(r"(\d+) bytes spill stores")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")
SM_REGISTERS = 65536
SM_WARPS = 64

Kernel = collections.namedtuple("Kernel", "name target registers spilled shared")
NOISE = re.compile(r"ptxas info|bytes stack frame|Function properties|^\s*$|bytes gmem|Compile time")


def read_budget(path):
    budget = {}
    for line in open(path):
        if line.strip() and not line.startswith("#"):
            name, limit, _reason = line.split(None, 2)
            budget[name] = int(limit)
    return budget


def read_kernels(text):
    """Returns what ptxas -v prints for each kernel: mangled name, target, registers, spilled bytes and static shared
    bytes."""
    kernels, entry, spilled = [], None, 0
    for line in text.splitlines():
        if match := ENTRY.search(line):
            entry, spilled = match.groups(), 0
        if match := SPILL.search(line):
            spilled = int(match.group(1))
        if (match := USED.search(line)) and entry:
            shared = SHARED.search(line)
            kernels.append(Kernel(*entry, int(match.group(1)), spilled, int(shared.group(1)) if shared else 0))
            entry = None
    return kernels


def check_spills(kernels, budget):
    problems = []
    for kernel in kernels:
        limit = max([bytes_ for part, bytes_ in budget.items() if part in kernel.name], default=0)
        if kernel.spilled > limit:
            problems.append(f"{kernel.name} ({kernel.target}): spills {kernel.spilled} bytes of registers, "
                            f"at most {limit} (tools/spill_budget.txt)")
    return problems


def warps_by_registers(registers):
    """Returns how many warps fit into the registers of an SM, which are allocated per warp in units of 256."""
    per_warp = (registers * 32 + 255) // 256 * 256
    return min(SM_WARPS, SM_REGISTERS // per_warp)


def short_name(name):
    """Returns the kernel's name with its template arguments, without parameters and namespaces."""
    name = re.sub(r"\((anonymous namespace)\)::|<unnamed>::|_GLOBAL__N__\w+::", "", name)
    name = re.sub(r"\([\w:]+\)(?=-?\w)", "", name)  # the type of a value: (quire::DType)1
    name = re.sub(r"\(.*", "", name).removeprefix("void ")
    return re.sub(r"\b(quire|cuda)::", "", name)


def print_table(folder):
    kernels = [Kernel(*line.split()) for path in sorted(pathlib.Path(folder).rglob("*.resources"))
               for line in path.read_text().splitlines()]
    names = subprocess.run(["c++filt"], input="\n".join(kernel.name for kernel in kernels),
                           capture_output=True, text=True, check=True).stdout.splitlines()
    print(f"{'kernel':72} target   registers  warps/SM  spilled  shared")
    for name, kernel in sorted(zip(map(short_name, names), kernels)):
        print(f"{name[:72]:72} {kernel.target:8} {kernel.registers:>9} {warps_by_registers(int(kernel.registers)):>9} "
              f"{kernel.spilled:>8} {kernel.shared:>7}")


def main():
    if sys.argv[1] == "--table":
        return print_table(sys.argv[2])
    split = sys.argv.index("--")
    budget = read_budget(sys.argv[sys.argv.index("--budget") + 1])
    result = subprocess.run(sys.argv[split + 1:], capture_output=True, text=True)
    sys.stdout.write(result.stdout)
    for line in result.stderr.splitlines():
        if not NOISE.search(line):
            sys.stderr.write(line + "\n")
    kernels = read_kernels(result.stderr)
    pathlib.Path(sys.argv[sys.argv.index("-o") + 1] + ".resources").write_text(
        "".join(" ".join(map(str, kernel)) + "\n" for kernel in kernels))
    problems = check_spills(kernels, budget)
    for problem in problems:
        sys.stderr.write(f"nvcc.py: {problem}\n")
    return result.returncode or (1 if problems else 0)


if __name__ == "__main__":
    sys.exit(main())
