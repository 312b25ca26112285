#!/usr/bin/env python3
"""make_sbom.py BINARY [-o FILE]: what a built program is made of, as CycloneDX 1.5.

The program itself, and each shared library that it loads when it starts, with the Debian package, version and licence
file that the library came in. Libraries that are opened later (CUDA's driver, MPI, UCX, NCCL) are not part of it. Made from the
files alone, without a clock or a random number: the same program on the same machine gives the same bytes.
"""
import argparse
import hashlib
import json
import os
import re
import subprocess
import sys


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def shared_libraries(binary):
    """Returns the paths of the libraries that the loader finds, with links resolved."""
    found = []
    for line in run("ldd", binary).splitlines():
        match = re.match(r"\s*(\S+)(?: => (\S+))? \(0x", line)
        if "not found" in line:
            sys.exit(f"make_sbom: expected every library to be there, got {line.strip()}")
        path = match and (match.group(2) or match.group(1))
        if path and path.startswith("/"):
            found.append(os.path.realpath(path))
    return sorted(set(found))


def owner(path):
    """Returns the (package, version, architecture) of a file from a Debian package; None for other files."""
    for name in (path, path.removeprefix("/usr")):
        found = subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True)
        if found.returncode == 0:
            package = found.stdout.splitlines()[0].rsplit(": ", 1)[0].split(",")[0]
            return tuple(run("dpkg-query", "-W", "-f", "${Package}\t${Version}\t${Architecture}", package).split("\t"))
    return None


def component(path):
    about = {"type": "library", "name": os.path.basename(path), "hashes": [{"alg": "SHA-256", "content": sha256(path)}]}
    package = owner(path)
    if package:
        name, version, architecture = package
        about["version"] = version
        about["purl"] = f"pkg:deb/debian/{name}@{version.replace('+', '%2B').replace(':', '%3A')}?arch={architecture}"
        about["licenses"] = [{"license": {"name": f"/usr/share/doc/{name}/copyright"}}]
    about["bom-ref"] = about.get("purl", "file") + "#" + about["name"]
    return about


def make(binary):
    version = run(binary, "--version").split()[1]
    program = {"type": "application", "bom-ref": "quire", "name": "quire", "version": version,
               "licenses": [{"license": {"id": "Apache-2.0"}}],
               "hashes": [{"alg": "SHA-256", "content": sha256(binary)}]}
    components = [component(path) for path in shared_libraries(binary)]
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": {"component": program},
            "components": components,
            "dependencies": [{"ref": "quire", "dependsOn": [one["bom-ref"] for one in components]}]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("-o", "--output", help="a file (standard output)")
    arguments = parser.parse_args()
    text = json.dumps(make(arguments.binary), indent=1) + "\n"
    if arguments.output:
        with open(arguments.output, "w") as file:
            file.write(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
