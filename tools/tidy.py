#!/usr/bin/env python3
"""Runs clang-tidy (.clang-tidy) over sources: tools/tidy.py BUILD_DIR [--since COMMIT] [--jobs N]

Without --since it reads all sources of the program and its libraries, in the groups that the build compiles together
(QUIRE_UNITY): a header that several sources of a group include is then read once, which takes a fifth of the time. With
--since it reads those sources alone that differ from COMMIT. Tests are left out, and kernels too: clang reads g++'s flags
for instruction sets otherwise. Headers are read with the sources that include them. Exit code 1: there were warnings.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

from source_commands import GROUP, source_commands, sources_of_group

ROOT = pathlib.Path(__file__).resolve().parent.parent
# A group includes sources, which is what this check warns of.
GROUP_CHECKS = "--checks=-bugprone-suspicious-include"


def is_read(source):
    path = pathlib.Path(source)
    if not path.is_relative_to(ROOT):
        return False
    name = str(path.relative_to(ROOT))
    return (name.startswith(("src/", "apps/")) and path.suffix == ".cc" and not path.stem.endswith("_test") and
            not name.startswith("src/kernels/") and "cuda" not in path.parts and "testing" not in path.parts)


def commands_of_groups(build_dir):
    """The entries of the build's own compile commands that compile at least one source to be read."""
    for entry in json.loads((build_dir / "compile_commands.json").read_text()):
        sources = sources_of_group(entry["file"]) if GROUP.search(entry["file"]) else [entry["file"]]
        if any(is_read(source) for source in sources):
            yield entry


def commands_since(build_dir, commit):
    listed = subprocess.run(["git", "-C", str(ROOT), "diff", "--name-only", "--diff-filter=d", commit, "--", "*.cc"],
                            check=True, capture_output=True, text=True).stdout.split()
    changed = {str(ROOT / name) for name in listed if is_read(ROOT / name)}
    for source, directory, words in source_commands(build_dir):
        if source in changed:
            changed.remove(source)
            yield {"file": source, "directory": directory, "arguments": words}


def tidy(entry, folder):
    command = ["clang-tidy-14", "-p", str(folder), "--quiet", "--extra-arg=-Wno-unknown-warning-option", entry["file"]]
    if GROUP.search(entry["file"]):
        command.insert(1, GROUP_CHECKS)
    run = subprocess.run(command, capture_output=True, text=True)
    return run.returncode, run.stdout + (run.stderr if run.returncode and not run.stdout else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build_dir", type=pathlib.Path)
    parser.add_argument("--since")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    entries = list(commands_since(args.build_dir, args.since) if args.since else commands_of_groups(args.build_dir))
    folder = args.build_dir / "tidy"
    folder.mkdir(exist_ok=True)
    (folder / "compile_commands.json").write_text(json.dumps(entries))
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for code, output in pool.map(lambda entry: tidy(entry, folder), entries):
            failed += code != 0
            if output.strip():
                print(output, end="", flush=True)
    print(f"tidy: {len(entries)} sources or groups of sources, {failed} with warnings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
