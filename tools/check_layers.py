#!/usr/bin/env python3
"""Checks the layers of src/ against tools/layers.txt, and what is in a folder, file, class or function against limits.

A folder may include headers of its own and of the folders in its row. A row may name only rows above it, so the table
itself cannot hold a cycle. The rooms of a folder (its subfolders and the files beside them) may include each other in
one direction only: their includes hold no cycle. No library of the product includes or compiles what is in a folder
testing/. No file is an .inc, whose names would be those of whoever includes it. A folder under src/ lists at most 25
files, tests aside. A source file may have at most 600 lines (tests: 800), a class at most 25 functions, a function at most
60 lines, kernels aside; tools/size_budget.txt lists those that may be larger, each with its own limit and a reason.

With --figures it prints the rows of the table in docs/house.md instead.
"""
import collections
import pathlib
import re
import sys

import cpp_shapes

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
MAX_LINES = 600
MAX_TEST_LINES = 800
MAX_FILES = 25
MAX_METHODS = 25
MAX_FUNCTION_LINES = 60
SOURCE_SUFFIXES = (".h", ".cc", ".cu", ".cuh")
CUDA_HEADER = re.compile(r'^\s*#\s*include\s+[<"](cuda|cublas|nccl|nvtx)', re.M)


def read_table(problems):
    allowed = {}
    for line in (ROOT / "tools/layers.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        folder, _, row = line.partition(":")
        for dep in row.split():
            if dep not in allowed:
                problems.append(f"tools/layers.txt: '{folder}' names '{dep}', which is not above it")
        allowed[folder] = set(row.split()) | {folder}
    return allowed


def read_budgets():
    budgets = {}
    path = ROOT / "tools/size_budget.txt"
    if path.exists():
        for line in path.read_text().splitlines():
            if line and not line.startswith("#"):
                name, limit, _reason = line.split(None, 2)
                budgets[name] = int(limit)
    return budgets


def is_test(path):
    return path.stem.endswith(("_test", "_bench", "_fuzz")) or bool({"testing", "test", "tests", "fuzz"} & set(path.parts))


def check_sizes(path, text, budgets, problems):
    name = str(path.relative_to(ROOT))

    def check(what, size, unit, limit):
        limit = budgets.get(what, limit)
        if size > limit:
            problems.append(f"{what}: {size} {unit}, at most {limit}: cut it by subject (tools/size_budget.txt)")

    test = is_test(path.relative_to(ROOT))
    check(name, text.count("\n"), "lines", MAX_TEST_LINES if test else MAX_LINES)
    if test:
        return
    for shape in cpp_shapes.shapes(text):
        if shape.kind == "class":
            check(f"{name}:{shape.name}", shape.num_methods, "functions", MAX_METHODS)
        elif not name.startswith("src/kernels/"):
            check(f"{name}:{shape.name}", shape.num_lines, "lines", MAX_FUNCTION_LINES)


def check_product_libraries(problems):
    """Sources of product libraries must not be test helpers."""
    for path in sorted((ROOT / "src").rglob("CMakeLists.txt")):
        for sources in re.findall(r"quire_folder\(\w+\s+SOURCES(.*?)(?:LINK|TESTS|\))", path.read_text(), re.S):
            for source in sources.split():
                if "testing" in source.split("/") or pathlib.Path(source).stem.endswith("_test"):
                    problems.append(f"{path.relative_to(ROOT)}: {source} is a test helper in a library of the product")


def check_includes(path, folder, text, allowed, problems):
    for header in INCLUDE.findall(text):
        top = header.split("/")[0]
        name = path.relative_to(ROOT)
        if top in allowed and top not in allowed[folder]:
            problems.append(f"{name}: includes {header}, but '{folder}' may use only "
                            f"{', '.join(sorted(allowed[folder] - {folder})) or 'nothing'} (tools/layers.txt)")
        if {"testing", "tests"} & set(header.split("/")[:-1]) and not is_test(name):
            problems.append(f"{name}: includes {header}, but only tests may include what is for tests")
    if CUDA_HEADER.search(text) and "cuda" not in path.parts:
        problems.append(f"{path.relative_to(ROOT)}: CUDA headers belong under */cuda/ only")


def check_folders(problems):
    counts = collections.Counter()
    for path in (ROOT / "src").rglob("*"):
        if path.is_file() and not path.stem.endswith("_test"):
            counts[path.parent.relative_to(ROOT)] += 1
    for folder, count in sorted(counts.items()):
        if count > MAX_FILES:
            problems.append(f"{folder}: lists {count} files, tests aside; at most {MAX_FILES}: cut it by subject")


# A folder that stands in for headers of the CUDA compiler. Device code includes it, and it compiles device code.
ROOMS_ASIDE = {"kernels/cuda/emulation"}


def room_edges():
    """Returns {room: {rooms of the same folder that its files include}}, without tests and test helpers. A room is a
    subfolder, or the files beside the subfolders."""
    edges = collections.defaultdict(set)
    for path in (ROOT / "src").rglob("*"):
        room = path.parent.relative_to(ROOT / "src")
        if path.suffix not in SOURCE_SUFFIXES or is_test(path.relative_to(ROOT)) or str(room) in ROOMS_ASIDE:
            continue
        for header in INCLUDE.findall(path.read_text()):
            other = pathlib.Path(header).parent
            if other.parts[:1] == room.parts[:1] and other != room and (ROOT / "src" / header).exists():
                edges[str(room)].add(str(other))
    return edges


def check_rooms(problems):
    reported = set()
    edges = room_edges()

    def reachable(start):
        reached, todo = set(), [start]
        while todo:
            for room in edges.get(todo.pop(), set()) - reached:
                reached.add(room)
                todo.append(room)
        return reached

    for room in sorted(edges):
        for other in sorted(edges[room]):
            if room in reachable(other) and (other, room) not in reported:
                reported.add((room, other))
                problems.append(f"src/{room} and src/{other} include each other: move what both need below both")


def num_upward_includes(allowed):
    """Returns the number of includes of a folder that tools/layers.txt does not list below the including folder."""
    order = {folder: i for i, folder in enumerate(allowed)}
    return sum(order.get(header.split("/")[0], -1) > order[folder]
               for folder in allowed for path in (ROOT / "src" / folder).rglob("*") if path.suffix in SOURCE_SUFFIXES
               for header in INCLUDE.findall(path.read_text()))


def print_figures():
    """Prints the measured values that the limits restrict, as rows of the table in docs/house.md."""
    allowed, budgets, problems = read_table([]), read_budgets(), []
    check_rooms(problems)
    files = [path for path in (ROOT / "src").rglob("*") if path.is_file()]
    sources = [path for top in ("src", "apps", "include") for path in (ROOT / top).rglob("*")
               if path.suffix in SOURCE_SUFFIXES and not is_test(path.relative_to(ROOT))]
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in sources}
    shapes = [(name, shape) for name, text in texts.items() for shape in cpp_shapes.shapes(text)]
    classes = sorted(((shape.num_methods, shape.name) for _, shape in shapes if shape.kind == "class"), reverse=True)
    functions = sorted(((shape.num_lines, shape.name) for name, shape in shapes
                        if shape.kind != "class" and not name.startswith("src/kernels/")), reverse=True)
    listed = {what.rpartition(":")[2] for what in budgets}
    in_folder = collections.Counter(path.parent for path in files if not path.stem.endswith("_test"))
    rows = {
        "files and folders under `src/`, tests among them": f"{len(files):,} and {len({path.parent for path in files})}",
        f"folders over {MAX_FILES} files": sum(count > MAX_FILES for count in in_folder.values()),
        "cycles between folders, or between the rooms of one": len(problems),
        "includes from a folder to one above it": num_upward_includes(allowed),
        f"product sources over {MAX_LINES} lines": sum(text.count("\n") > MAX_LINES for text in texts.values()),
        "largest class, functions": "{} (`{}`)".format(*classes[0]),
        f"classes over {MAX_METHODS} functions, not listed": "{} and {}".format(
            sum(size > MAX_METHODS for size, _ in classes),
            sum(size > MAX_METHODS and name not in listed for size, name in classes)),
        f"functions over {MAX_FUNCTION_LINES} lines, not listed": "{} and {}".format(
            sum(size > MAX_FUNCTION_LINES for size, _ in functions),
            sum(size > MAX_FUNCTION_LINES and name not in listed for size, name in functions)),
        "longest function, lines": "{} (`{}`)".format(*functions[0]),
    }
    for name, value in rows.items():
        print(f"| {name} | {value} |")
    return 0


def main():
    if sys.argv[1:] == ["--figures"]:
        return print_figures()
    problems = []
    allowed = read_table(problems)
    budgets = read_budgets()
    files = 0
    for top in ("src", "apps", "include", "tests", "fuzz", "bench"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix == ".inc":
                problems.append(f"{path.relative_to(ROOT)}: takes its names from what includes it: make it a header that "
                                f"includes what it uses (-inl.h where it is compiled per instruction set)")
            if path.suffix not in SOURCE_SUFFIXES:
                continue
            files += 1
            text = path.read_text()
            if top == "src":
                folder = path.relative_to(ROOT / "src").parts[0]
                if folder not in allowed:
                    problems.append(f"src/{folder}: no row in tools/layers.txt")
                    continue
                check_includes(path, folder, text, allowed, problems)
            check_sizes(path, text, budgets, problems)
    check_product_libraries(problems)
    check_folders(problems)
    check_rooms(problems)
    for problem in problems:
        print(problem)
    print(f"check_layers: {files} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
