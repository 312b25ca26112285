#!/usr/bin/env python3
"""Groups the sources of one target for a build that compiles several of them together (QUIRE_UNITY).

usage: tools/unity_groups.py SOURCE...    prints one line `GROUP SOURCE` for each

Files of one group become one translation unit, so that names which several files define for themselves (constants,
types and functions of unnamed namespaces, macros) must be in different groups. Aliases of one type may share one, and so
may functions of other parameters, but for those of tests, whose calls with literals and braces fit several. A group ends at MAX_BYTES of text, so that a machine with many cores has enough of them, and
none takes much memory.
"""
import pathlib
import re
import sys

MAX_BYTES = 128 * 1024
MAX_TEST_BYTES = 64 * 1024  # macros expand lines of tests to more code
TEST = re.compile(r"_test\.cc$|\btest(ing)?/")
# A definition begins in the first column; members and locals are indented.
DEFINITIONS = [re.compile(pattern, re.M) for pattern in (
    r"^(?:template <[^\n]*>\s*)?(?:inline |static )*(?:constexpr|const|constinit|thread_local)\s[^=({\n]*?\b(\w+)\s*(?:\[[^\]\n]*\]\s*)*[={(;]",
    r"^(?:template <[^\n]*>\s*)?(?:struct|class|union|enum class|enum)\s+(\w+)",
    r"^#\s*define\s+(\w+)",
)]
ALIAS = re.compile(r"^using\s+(\w+)\s*=([^;]*);", re.M)
USING = re.compile(r"^using\s+([\w:]+::(\w+));", re.M)
FUNCTION = re.compile(r"^(?:[A-Za-z_][\w:<>,*&\[\]. ]*?[ *&])(\w+)\(", re.M)
# The names of an enum that is not an enum class belong to the scope around it.
PLAIN_ENUM = re.compile(r"^enum\s+(?!class\b)[^{;]*\{([^}]*)\}", re.M)
# One declaration may name several constants.
CONSTANTS = re.compile(r"^(?:inline |static )*constexpr\s[^;{]*", re.M)


def parameter_types(text, begin):
    """Returns the types of the parameters whose list begins at text[begin], without names and default values."""
    depth, part, parts = 1, "", []
    for char in text[begin:]:
        depth += (char in "([{<") - (char in ")]}>")
        if depth == 0 or (depth == 1 and char == ","):
            parts.append(part)
            part = ""
        else:
            part += char
        if depth == 0:
            break
    types = [re.sub(r"\s+", " ", part.split("=")[0]).strip() for part in parts]
    return tuple(re.sub(r"(?<=[ *&>])\w+$", "", type_).strip() for type_ in types)


def names_of(text):
    """{name: what it is}: None, what an alias or a using declaration stands for, or the parameters of all its functions."""
    names = {}
    for match in FUNCTION.finditer(text):
        names.setdefault(match.group(1), set()).add(parameter_types(text, match.end()))
    names.update((name, type_.strip()) for name, type_ in ALIAS.findall(text))
    names.update((name, whole) for whole, name in USING.findall(text))
    plain = {name for pattern in DEFINITIONS for name in pattern.findall(text)}
    plain.update(*(re.findall(r"\bk[A-Z]\w*", body) for body in PLAIN_ENUM.findall(text)))
    plain.update(*(re.findall(r"\b(k[A-Z]\w*)\s*=", line) for line in CONSTANTS.findall(text)))
    names.update(dict.fromkeys(plain))
    return names


def share_a_file(what, other, overloads):
    """Returns whether one file may contain both definitions of a name."""
    if isinstance(what, set) and isinstance(other, set):
        return overloads and not what & other
    return what is not None and what == other


def groups_of(texts, max_bytes=MAX_BYTES, overloads=True):
    """texts: {source: its text}. Returns {source: number of its group}, each in the first group that takes it.

    overloads: whether functions of one name and other parameters may be in one group.
    """
    groups = []  # [bytes, names]
    chosen = {}
    for source, text in texts.items():
        names = names_of(text)
        is_test = TEST.search(str(source))
        may_overload = overloads and not is_test
        limit = min(max_bytes, MAX_TEST_BYTES) if is_test else max_bytes

        def takes(group):
            size, taken = group
            return size + len(text) <= limit and all(
                share_a_file(names[name], taken[name], may_overload) for name in names.keys() & taken.keys())

        i = next((i for i, group in enumerate(groups) if takes(group)), len(groups))
        if i == len(groups):
            groups.append([0, {}])
        groups[i][0] += len(text)
        for name, what in names.items():
            taken = groups[i][1].get(name)
            groups[i][1][name] = taken | what if isinstance(taken, set) else what
        chosen[source] = i
    return chosen


def main():
    texts = {source: pathlib.Path(source).read_text() for source in sys.argv[1:]}
    for source, group in groups_of(texts).items():
        print(group, source)


if __name__ == "__main__":
    main()
