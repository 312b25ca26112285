#!/usr/bin/env python3
"""Encodes every code point in context with given tokenizers and compares the ids with those of Hugging Face's tokenizers.

    cmake --build build/release --target quire_tokenizer_compare
    build/oracle/bin/python tools/compare_unicode.py [--binary PATH] TOKENIZER_JSON...
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from make_unicode_goldens import RANGES
from tokenizers import Tokenizer

CHARS_PER_TEXT = 16


def texts():
    points = [c for first, last in RANGES for c in range(first, last)]
    for i in range(0, len(points), CHARS_PER_TEXT):
        yield "".join(f"a{chr(c)}b1 {chr(c)}{chr(c)}." for c in points[i:i + CHARS_PER_TEXT])


def golden(path):
    tokenizer = Tokenizer.from_file(path)
    cases = [{"text": text, "ids": tokenizer.encode(text).ids} for text in texts()]
    return {"name": path, "tokenizer": json.loads(pathlib.Path(path).read_text()), "cases": cases, "decodes": [],
            "size": max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="build/release/src/tokenizer/quire_tokenizer_compare")
    parser.add_argument("tokenizers", nargs="+")
    args = parser.parse_args()
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        for path in args.tokenizers:
            file.write(json.dumps(golden(path)) + "\n")
        file.flush()
        sys.exit(subprocess.run([args.binary, file.name], check=False).returncode)


if __name__ == "__main__":
    main()
