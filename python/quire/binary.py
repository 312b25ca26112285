"""Finds the program `quire`, and runs it for the command of that name."""
import os
import pathlib
import shutil
import sys


def find_binary() -> str:
    """Returns the path of the program: that of the wheel, or else the one on the PATH."""
    own = pathlib.Path(__file__).parent / "bin" / "quire"
    if own.exists():
        return str(own)
    found = shutil.which("quire")
    if found is None or _is_console_script(found):
        raise FileNotFoundError(
            "expected the program quire in this package or on the PATH, found none: install the "
            "wheel, or pass binary='/path/to/quire'")
    return found


def _is_console_script(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == b"#!"


def main() -> None:
    """Replaces this process by the program, with the same arguments."""
    binary = find_binary()
    os.execv(binary, [binary, *sys.argv[1:]])
