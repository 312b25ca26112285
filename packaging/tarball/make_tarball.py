#!/usr/bin/env python3
"""make_tarball.py BINARY -o FOLDER: the program with its loader and libraries, as quire-VERSION-linux-ARCH.tar.gz.

What is inside runs on any Linux of that architecture, whatever C library it has or lacks, from any folder:
    bin/quire                        finds the rest beside itself (launcher.c)
    lib/quire/                       the program, the loader, every shared library that it loads when it starts
    share/doc/quire/                 licence, bill of materials
    share/man, share/completions     what the program prints of itself
Owners, times and order are fixed, so the same program on the same machine gives the same bytes.
"""
import argparse
import gzip
import io
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
COMPLETIONS = {"bash": "quire.bash", "zsh": "_quire", "fish": "quire.fish"}


def run(*command):
    return subprocess.run(command, capture_output=True, check=True).stdout


def libraries(binary):
    """Returns {name: path} of the libraries, and the path of the loader."""
    found, loader = {}, None
    for line in run("ldd", binary).decode().splitlines():
        if "not found" in line:
            sys.exit(f"make_tarball: expected every library to be there, got {line.strip()}")
        match = re.match(r"\s*(\S+) => (/\S+) \(0x", line)
        if match:
            found[match.group(1)] = match.group(2)
        elif line.strip().startswith("/"):
            loader = line.split()[0]
    if loader is None:
        sys.exit(f"make_tarball: expected a dynamic program, got {binary}")
    return found, loader


def launcher(folder):
    path = os.path.join(folder, "launcher")
    run(os.environ.get("CC", "cc"), "-O2", "-static", "-s", "-Wall", "-Werror", str(HERE / "launcher.c"), "-o", path)
    return pathlib.Path(path).read_bytes()


def stripped(binary, folder):
    path = os.path.join(folder, "quire")
    run("strip", "-o", path, binary)
    return pathlib.Path(path).read_bytes()


def contents(binary, folder):
    """Returns {path in the package: (bytes, mode)}."""
    needed, loader = libraries(binary)
    files = {"bin/quire": (launcher(folder), 0o755), "lib/quire/quire": (stripped(binary, folder), 0o755),
             "lib/quire/ld.so": (pathlib.Path(loader).read_bytes(), 0o755)}
    for name, path in needed.items():
        files[f"lib/quire/{name}"] = (pathlib.Path(path).read_bytes(), 0o644)
    sbom = run(sys.executable, str(ROOT / "tools" / "make_sbom.py"), binary)
    files["share/doc/quire/quire.cdx.json"] = (sbom, 0o644)
    files["share/doc/quire/LICENSE"] = ((ROOT / "LICENSE").read_bytes(), 0o644)
    files["share/man/man1/quire.1"] = (run(binary, "man"), 0o644)
    for shell, name in COMPLETIONS.items():
        files[f"share/completions/{name}"] = (run(binary, "completion", shell), 0o644)
    return files


def write(path, top, files):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, (data, mode) in sorted(files.items()):
            info = tarfile.TarInfo(f"{top}/{name}")
            info.size, info.mode = len(data), mode
            tar.addfile(info, io.BytesIO(data))
    with open(path, "wb") as out, gzip.GzipFile(filename="", fileobj=out, mode="wb", mtime=0) as packed:
        packed.write(raw.getvalue())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("-o", "--output", required=True, help="folder for the tarball")
    arguments = parser.parse_args()
    version = run(arguments.binary, "--version").decode().split()[1]
    top = f"quire-{version}-linux-{os.uname().machine}"
    os.makedirs(arguments.output, exist_ok=True)
    path = os.path.join(arguments.output, top + ".tar.gz")
    with tempfile.TemporaryDirectory() as folder:
        write(path, top, contents(arguments.binary, folder))
    print(path)


if __name__ == "__main__":
    main()
