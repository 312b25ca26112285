#!/usr/bin/env python3
"""Checks that headers compile alone: tools/check_headers.py BUILD_DIR [--since COMMIT] [--jobs N]

Each header under src/, apps/ and include/ is given to the compiler by itself, with the flags of a source file near it in
BUILD_DIR/compile_commands.json. A -inl.h holds what is compiled once per instruction set: it gets the flags of a source that
includes it, which say what set that is. With --since only headers whose code, comments aside, differs from COMMIT are. Headers
for the CUDA compiler and headers of one instruction set under src/kernels/cpu are left out.
"""
import argparse
import concurrent.futures
import functools
import os
import pathlib
import re
import subprocess
import sys

from source_commands import source_commands

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEVICE_FOLDER = "src/kernels/cuda/"  # headers for the CUDA compiler


PART = re.compile(r"^src/kernels/cpu/.*_(avx2|avx512|amx|portable)\w*\.h$")
PER_INSTRUCTION_SET = "-inl.h"
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
# A string, which may hold what looks like a comment, or a comment.
STRING_OR_COMMENT = re.compile(r'R"(\w*)\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*(?:.|\n)*?\*/')
MAX_ERROR_LINES = 6


def compile_commands(build_dir):
    """Returns {source: flags of its command, without the source and the object}."""
    commands = {}
    for source, _, words in source_commands(build_dir):
        if source.endswith(".cu"):
            continue
        while not re.search(r"(\+\+|clang|gcc|cc)[-\d.]*$", words[0]):  # a launcher
            words = words[1:]
        flags = words[:1]
        skip = False
        for word in words[1:]:
            if skip or word in ("-c", source):
                skip = False
            elif word in ("-o", "-MF", "-MT"):
                skip = True
            elif not word.startswith("-M"):
                flags.append(word)
        commands[pathlib.Path(source).resolve()] = flags
    return commands


@functools.cache
def included_by(path):
    """Returns all headers under src/ that a file includes, directly or through others."""
    found = set()
    for name in INCLUDE.findall(path.read_text()):
        header = ROOT / "src" / name
        if header.exists():
            found |= {header} | included_by(header)
    return found


def flags_for(header, commands):
    """Returns the flags of the source whose path is most similar to the header's; its own source comes first."""
    def nearness(source):
        shared = len(os.path.commonpath([source, header]))
        return (shared, source.stem == header.stem, not source.stem.endswith("_test"), str(source))
    sources = list(commands)
    if header.name.endswith(PER_INSTRUCTION_SET):
        sources = [source for source in sources if source.is_relative_to(ROOT / "src") and header in included_by(source)]
        if not sources:
            return None
    return commands[max(sources, key=nearness)]


def code_of(text):
    """Returns the words of a source without its comments."""
    return STRING_OR_COMMENT.sub(lambda match: match[0] if match[0][0] in 'R"' else " ", text).split()


def has_the_code_of(name, commit):
    before = subprocess.run(["git", "-C", str(ROOT), "show", f"{commit}:{name}"], capture_output=True, text=True)
    return before.returncode == 0 and code_of(before.stdout) == code_of((ROOT / name).read_text())


def headers(since):
    names = ["ls-files", "*.h"] if since is None else ["diff", "--name-only", "--diff-filter=d", since, "--", "*.h"]
    listed = subprocess.run(["git", "-C", str(ROOT)] + names, check=True, capture_output=True, text=True).stdout
    for name in listed.split():
        path = ROOT / name
        if name.split("/")[0] not in ("src", "apps", "include") or PART.search(name):
            continue
        if not name.startswith(DEVICE_FOLDER) and not (since and has_the_code_of(name, since)):
            yield path


def check(header, commands):
    flags = flags_for(header, commands)
    if flags is None:
        return "no source includes it"
    if header.name.endswith(PER_INSTRUCTION_SET):
        flags = flags + ["-Wno-unused-function"]  # kernels that are used by tables in other files
    text = f'#include "{header}"\n#include "{header}"\n'  # twice: it must be guarded too
    run = subprocess.run(flags + ["-fsyntax-only", "-x", "c++", "-"], input=text, capture_output=True, text=True)
    return "\n".join(run.stderr.splitlines()[:MAX_ERROR_LINES]) if run.returncode else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build_dir", type=pathlib.Path)
    parser.add_argument("--since")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    commands = compile_commands(args.build_dir)
    paths = list(headers(args.since))
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for path, errors in zip(paths, pool.map(lambda header: check(header, commands), paths)):
            if errors:
                failed += 1
                print(f"{path.relative_to(ROOT)} does not compile alone:\n{errors}")
    print(f"check_headers: {len(paths)} headers, {failed} that do not compile alone")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
