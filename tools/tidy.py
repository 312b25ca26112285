#!/usr/bin/env python3
"""Runs clang-tidy (.clang-tidy) over sources: tools/tidy.py BUILD_DIR [--since COMMIT] [--only REGEX] [--jobs N]

It reads the sources of the program and its libraries; with --since only those that differ from COMMIT, with --only those
whose path from the top matches. Several sources become one file that includes them, as in a build in groups
(tools/unity_groups.py), because most of the work is in the headers that they share. Tests are left out, and kernels too:
clang reads g++'s flags for instruction sets otherwise. Headers are read with the sources that include them. Exit code 1:
there were warnings.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

from source_commands import source_commands
from unity_groups import groups_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_GROUP_BYTES = 200 * 1024
# A group includes sources, which is what this check warns of.
CHECKS = "--checks=-bugprone-suspicious-include"


def is_read(name):
    path = pathlib.Path(name)
    return (path.parts[0] in ("src", "apps") and path.suffix == ".cc" and not path.stem.endswith("_test") and
            not name.startswith("src/kernels/") and not {"cuda", "testing"} & set(path.parts))


def changed_since(commit):
    command = ["git", "-C", str(ROOT), "diff", "--name-only", "--diff-filter=d", commit, "--", "*.cc"]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


def sources_and_flags(build_dir, wanted):
    """{path from the top: text} of the sources that are read and wanted, and flags that all of them take."""
    texts, flags = {}, {}
    for source, _, words in source_commands(build_dir):
        path = pathlib.Path(source)
        if not path.is_relative_to(ROOT) or not is_read(str(path.relative_to(ROOT))):
            continue
        name = str(path.relative_to(ROOT))
        if wanted(name):
            texts[name] = path.read_text()
        for word, after in zip(words, words[1:]):
            if word == "-isystem":
                flags[word, after] = None
            elif word.startswith(("-I", "-D", "-std")):
                flags[word,] = None
    return texts, [word for flag in flags for word in flag]


def write_groups(texts, flags, folder):
    """Writes files that include the sources, and compile_commands.json, which clang-tidy reads; returns their paths."""
    includes = {}
    # Sources come from many namespaces, where a function may hide that of another which it does not overload.
    for name, group in groups_of(texts, MAX_GROUP_BYTES, overloads=False).items():
        includes.setdefault(folder / f"group_{group}.cc", []).append(f'#include "{ROOT / name}"\n')
    folder.mkdir(exist_ok=True)
    for path, lines in includes.items():
        path.write_text("".join(lines))
    (folder / "compile_commands.json").write_text(json.dumps(
        [{"file": str(path), "directory": str(folder), "arguments": ["c++", *flags, "-c", str(path)]} for path in includes]))
    return list(includes)


def tidy(path):
    run = subprocess.run(["clang-tidy-14", CHECKS, "-p", str(path.parent), "--quiet", str(path)], capture_output=True, text=True)
    return run.returncode, run.stdout or (run.stderr if run.returncode else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build_dir", type=pathlib.Path)
    parser.add_argument("--since")
    parser.add_argument("--only", type=re.compile, default=re.compile(""))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    changed = changed_since(args.since) if args.since else None
    texts, flags = sources_and_flags(
        args.build_dir, lambda name: args.only.search(name) and (changed is None or name in changed))
    groups = write_groups(texts, flags, args.build_dir.resolve() / "tidy")
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for code, output in pool.map(tidy, groups):
            failed += code != 0
            print(output, end="", flush=True)
    print(f"tidy: {len(texts)} sources in {len(groups)} groups, {failed} of them with warnings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
