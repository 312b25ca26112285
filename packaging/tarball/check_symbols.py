#!/usr/bin/env python3
"""check_symbols.py TARBALL.tar.gz: shows that the tarball needs no C library of the machine, old or new.

bin/quire must be static, so that it starts on any kernel; everything in lib/quire must find each library that it needs,
and each version of a symbol (GLIBC_2.34, GLIBCXX_3.4.30 ...), in lib/quire itself. The newest version of the C library
that the files ask for is printed: it is that of the C library inside, and may be newer than the machine's.
"""
import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile


def readelf(flag, path):
    return subprocess.run(["readelf", "--wide", flag, path], capture_output=True, text=True, check=True).stdout


def needed_libraries(path):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("--dynamic", path))


def versions(path):
    """Returns ({library: versions of its symbols that the file needs}, versions that the file defines)."""
    needs, defines, library, section = {}, set(), None, None
    for line in readelf("--version-info", path).splitlines():
        if line.startswith("Version"):
            section = line
        elif section and section.startswith("Version needs"):
            if found := re.search(r"File: (\S+)", line):
                library = found.group(1)
            elif (found := re.search(r"Name: (\S+)\s+Flags: (\S+)", line)) and found.group(2) != "WEAK":
                needs.setdefault(library, set()).add(found.group(1))
        elif section and section.startswith("Version definition"):
            if found := re.search(r"Name: (\S+)", line):
                defines.add(found.group(1))
    return needs, defines


def is_static(path):
    return "INTERP" not in readelf("--program-headers", path) and not needed_libraries(path)


def check(folder):
    """Returns (what is missing, the newest version of the C library that a file needs)."""
    program = os.path.join(folder, "bin", "quire")
    problems = [] if is_static(program) else ["bin/quire: expected a static program, got one that needs a loader"]
    inside = os.path.join(folder, "lib", "quire")
    # The tarball names the loader ld.so, whatever its own name is.
    names = {name: name for name in os.listdir(inside)}
    loader = re.search(r"soname: \[(.*)\]", readelf("--dynamic", os.path.join(inside, "ld.so")))
    names[loader.group(1) if loader else "ld-linux-x86-64.so.2"] = "ld.so"
    defined = {name: versions(os.path.join(inside, file))[1] for name, file in names.items()}
    newest = (0,)
    for name in sorted(set(names.values())):
        path = os.path.join(inside, name)
        problems += [f"{name}: needs {library}, which is not inside" for library in needed_libraries(path) if library not in names]
        for library, needed in versions(path)[0].items():
            problems += [f"{name}: needs {version} of {library}, which the one inside has not"
                         for version in sorted(needed - defined.get(library, set())) if library in names]
            for version in needed:
                if found := re.fullmatch(r"GLIBC_([\d.]+)", version):
                    newest = max(newest, tuple(int(part) for part in found.group(1).split(".")))
    return problems, ".".join(str(part) for part in newest)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tarball")
    tarball = parser.parse_args().tarball
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(tarball) as tar:
            tar.extractall(folder)
        [top] = os.listdir(folder)
        problems, newest = check(os.path.join(folder, top))
    if problems:
        sys.exit("\n".join("check_symbols: " + problem for problem in problems))
    print(f"check_symbols: {os.path.basename(tarball)} needs nothing of the machine's C library; the one inside gives all "
          f"that is asked for, up to GLIBC_{newest}")


if __name__ == "__main__":
    main()
