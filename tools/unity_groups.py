#!/usr/bin/env python3
"""Groups the sources of one target for a build that compiles several of them together (QUIRE_UNITY).

usage: tools/unity_groups.py SOURCE...    prints one line `GROUP SOURCE` for each

Files of one group become one translation unit, so that names which several files define for themselves (constants,
types and functions of unnamed namespaces, macros) must be in different groups. A group ends at MAX_BYTES of text, so
that a machine with many cores has enough of them, and none takes much memory.
"""
import pathlib
import re
import sys

MAX_BYTES = 64 * 1024
# A definition begins in the first column; members and locals are indented.
DEFINITIONS = [re.compile(pattern, re.M) for pattern in (
    r"^(?:template <[^\n]*>\s*)?(?:inline |static )*(?:constexpr|const|constinit|thread_local)\s[^=({\n]*?\b(\w+)\s*(?:\[[^\]\n]*\]\s*)*[={(;]",
    r"^(?:template <[^\n]*>\s*)?(?:struct|class|union|enum class|enum)\s+(\w+)",
    r"^using\s+(\w+)\s*=",
    r"^(?:[A-Za-z_][\w:<>,*&\[\]. ]*?[ *&])(\w+)\(",
    r"^#\s*define\s+(\w+)",
)]
# The names inside an enum that is no class lie outside of it.
PLAIN_ENUM = re.compile(r"^enum\s+(?!class\b)[^{;]*\{([^}]*)\}", re.M)
# One declaration may name several constants.
CONSTANTS = re.compile(r"^(?:inline |static )*constexpr\s[^;{]*", re.M)


def names_of(text):
    names = {name for pattern in DEFINITIONS for name in pattern.findall(text)}
    names.update(*(re.findall(r"\bk[A-Z]\w*", body) for body in PLAIN_ENUM.findall(text)))
    names.update(*(re.findall(r"\b(k[A-Z]\w*)\s*=", line) for line in CONSTANTS.findall(text)))
    return names


def groups_of(texts, max_bytes=MAX_BYTES):
    """texts: {source: its text}. Returns {source: number of its group}, each in the first group that takes it."""
    groups = []  # [bytes, names]
    chosen = {}
    for source, text in texts.items():
        names = names_of(text)
        fits = (i for i, (size, taken) in enumerate(groups) if size + len(text) <= max_bytes and not names & taken)
        i = next(fits, len(groups))
        if i == len(groups):
            groups.append([0, set()])
        groups[i][0] += len(text)
        groups[i][1] |= names
        chosen[source] = i
    return chosen


def main():
    texts = {source: pathlib.Path(source).read_text() for source in sys.argv[1:]}
    for source, group in groups_of(texts).items():
        print(group, source)


if __name__ == "__main__":
    main()
