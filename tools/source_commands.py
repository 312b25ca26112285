#!/usr/bin/env python3
"""The compiler's command for each source file, also where a build compiles several of them together.

usage: tools/source_commands.py BUILD_DIR    writes BUILD_DIR/sources/compile_commands.json, which clang-tidy reads with -p

BUILD_DIR/compile_commands.json names what the build compiles. Files that stand for a group (QUIRE_UNITY) include the
sources of the group and nothing else; each of those gets the command of its group.
"""
import json
import pathlib
import re
import shlex
import sys

GROUP = re.compile(r"/Unity/unity_\w+\.cxx$")
INCLUDE = re.compile(r'^#include "(.*)"$', re.M)


def source_commands(build_dir):
    """Yields (source, directory, words of its command)."""
    for entry in json.loads((build_dir / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        if not GROUP.search(entry["file"]):
            yield entry["file"], entry["directory"], words
            continue
        for source in INCLUDE.findall(pathlib.Path(entry["file"]).read_text()):
            yield source, entry["directory"], [source if word == entry["file"] else word for word in words]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    build_dir = pathlib.Path(sys.argv[1])
    entries = [{"file": source, "directory": directory, "command": shlex.join(words)}
               for source, directory, words in source_commands(build_dir)]
    (build_dir / "sources").mkdir(exist_ok=True)
    (build_dir / "sources" / "compile_commands.json").write_text(json.dumps(entries, indent=1))


if __name__ == "__main__":
    main()
