"""Finds the functions and classes of a C++ file, with their sizes, by matching braces.

It is no parser: macros are not expanded, and what the preprocessor leaves out is read all the same. That is enough to
see what has grown too large.
"""
import dataclasses
import re


@dataclasses.dataclass
class Shape:
    kind: str  # "function" or "class"
    name: str
    line: int  # of the first line
    num_lines: int
    num_methods: int = 0  # for a class: declared functions that are neither deleted nor defaulted


_ASIDE = re.compile(r"""//[^\n]*|/\*.*?\*/|R"(?P<raw>[^(\s]*)\(.*?\)(?P=raw)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'
                        |^[ \t]*\#(?:\\\n|[^\n])*""", re.X | re.S | re.M)
_CLASS = re.compile(r"\b(?:class|struct|union)\s+(?:alignas\([^)]*\)\s*)?(?:\[\[[^\]]*\]\]\s*)?((?:\w+::)*\w+)[^()]*$")
_NAME = re.compile(r"((?:[\w~]+(?:<[^<>]*>)?::)*(?:operator\s*[^\s(]+|~?\w+))\s*\(")
_QUALIFIER = re.compile(r"\b(?:const|noexcept|override|final|mutable|try)$")


def _blank(match):
    """Returns the match as blanks. Line breaks stay, so that positions stay."""
    text = match.group(0)
    return re.sub(r"[^\n]", " ", text)


def _strip(text):
    return _ASIDE.sub(_blank, re.sub(r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])", "_", text))


def _kind_of(head, scope):
    head = head.strip()
    if scope in ("function", "value"):
        return "value" if scope == "value" else "block"
    if re.search(r"\bnamespace\b", head) or head.startswith("extern"):
        return "namespace"
    if re.search(r"\benum\b", head):
        return "value"
    plain = re.sub(r"<[^<>]*>", "", head)
    if _CLASS.search(plain):
        return "class"
    before_call = plain.split("(")[0]
    if "(" not in head or re.search(r"(?<!operator)=\s*$", before_call) or re.search(r"[^=!<>]=[^=]", before_call):
        return "value"
    if re.search(r"\)\s*(noexcept\s*)?:[^:]", head) and re.search(r"[\w>]$", head) and not _QUALIFIER.search(head):
        return "member"  # part of a constructor's member list, behind which its head continues
    return "function"


def _is_method(statement):
    """Returns whether a statement in a class declares a function."""
    statement = re.sub(r"^\s*(public|private|protected)\s*:", "", statement.strip()).strip()
    if "(" not in statement or re.search(r"=\s*(delete|default)\s*$", statement):
        return False
    if re.match(r"(using|friend|typedef|static_assert|QUIRE_\w+)\b", statement):
        return False
    before = re.sub(r"<[^<>]*>", "", statement).split("(")[0]
    return "=" not in before.replace("operator", "") or "operator" in before


def shapes(text):
    """Returns the functions and classes of a file, in the order in which they end."""
    text = _strip(text)
    stack = []  # [kind, name, line where its head begins, methods, head to go on with]
    head_start = 0
    found = []
    line = 1
    head_line = 1
    for i, char in enumerate(text):
        if char == "\n":
            line += 1
        if not char.isspace() and not text[head_start:i].strip():
            head_line = line
        scope = stack[-1][0] if stack else "namespace"
        if char == ";":
            if scope == "class" and _is_method(text[head_start:i]):
                stack[-1][3] += 1
            if scope in ("namespace", "class"):
                head_start = i + 1
        elif char == "{":
            head = text[head_start:i]
            kind = _kind_of(head, "function" if scope in ("function", "block") else scope)
            name = ""
            if kind == "class":
                name = _CLASS.search(re.sub(r"<[^<>]*>", "", head)).group(1)
            elif kind == "function":
                match = _NAME.search(head)
                name = re.sub(r"\s+", " ", match.group(1)) if match else head.strip()[-40:]
                if scope == "class":
                    stack[-1][3] += 1
            stack.append([kind, name, head_line, 0, head_start])
            if kind in ("namespace", "class", "function"):
                head_start = i + 1
        elif char == "}" and stack:
            kind, name, begin, methods, start = stack.pop()
            if kind in ("class", "function"):
                found.append(Shape(kind, name, begin, line - begin + 1, methods))
            if kind in ("namespace", "class", "function"):
                head_start = i + 1
            elif kind in ("member", "value"):
                head_start = start
    return found
