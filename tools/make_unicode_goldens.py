#!/usr/bin/env python3
"""Writes tests/goldens/unicode/blocks.json: what tokenizers 0.23 makes of every code point, as a hash for each block.

    build/oracle/bin/python tools/make_unicode_goldens.py

Every component stands there as a tokenizer.json has it. A pre-tokenizer cuts "aXb1 XX." with the code point for X, a
normalizer rewrites "aXb X\\u0301"; the words, each ended by 0x1F, and a final 0x1E go into the FNV-1a hash (64 bits) of the
code point's block of 4096.
"""

import json
import pathlib

import tokenizers
from tokenizers import Tokenizer

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/goldens/unicode/blocks.json"
BLOCK = 4096
# The planes that have characters with properties of their own; other characters are unassigned or private.
RANGES = [(0, 0xD800), (0xE000, 0x34000), (0xE0000, 0xE1000)]
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"


def words(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


PRE_TOKENIZERS = {
    "gpt2": words(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"),
    "llama3": words(CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"),
    "qwen35": words(CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"),
    "deepseek3": words(r"[!-/:-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"),
    "cased": words(r"[\p{Lu}\p{Lt}]+|\p{Ll}+|\p{Lm}+|\p{Lo}+|\p{Mn}+|\p{Nd}+|\p{Pd}+|\p{Sc}+|\p{So}+|\p{Cf}+|\p{Cn}+"),
    "scripts": words(r"\p{Han}+|\p{Hiragana}+|\p{Katakana}+|\p{Latin}+|\p{Thai}+|\p{Common}+"),
    "negated": words(r"\P{L}+|[\P{N}]+|\D+"),
    "word_class": words(r"\w+|[^\w\s]+"),
    "boundaries": words(r"\b\d+\b|\b"),
    "whitespace": {"type": "Whitespace"},
    "punctuation": {"type": "Punctuation", "behavior": "Isolated"},
    "digits": {"type": "Digits", "individual_digits": False},
    "bert": {"type": "BertPreTokenizer"},
    "unicode_scripts": {"type": "UnicodeScripts"},
}
NORMALIZERS = {
    **{form.lower(): {"type": form} for form in ("NFC", "NFD", "NFKC", "NFKD")},
    "lowercase": {"type": "Lowercase"},
    "strip_accents": {"type": "StripAccents"},
    "bert_normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                        "lowercase": True},
}


def fnv1a(state, data):
    for byte in data:
        state = (state ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return state


def hashes(words_of):
    state, out = {}, {}
    for first, last in RANGES:
        for c in range(first, last):
            data = b"".join(word.encode() + b"\x1f" for word in words_of(chr(c)) if word) + b"\x1e"
            state[c // BLOCK] = fnv1a(state.get(c // BLOCK, 0xCBF29CE484222325), data)
    return {f"{block:x}": f"{value:016x}" for block, value in sorted(state.items())}


def load(**component):
    document = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
                "pre_tokenizer": None, "post_processor": None, "decoder": None,
                "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}
    return Tokenizer.from_str(json.dumps({**document, **component}))


def entries():
    for name, component in PRE_TOKENIZERS.items():
        pre = load(pre_tokenizer=component).pre_tokenizer
        yield {"name": name, "pre_tokenizer": component,
               "hashes": hashes(lambda c: [word for word, _ in pre.pre_tokenize_str(f"a{c}b1 {c}{c}.")])}
    for name, component in NORMALIZERS.items():
        normalizer = load(normalizer=component).normalizer
        yield {"name": name, "normalizer": component,
               "hashes": hashes(lambda c: [normalizer.normalize_str(f"a{c}b {c}\u0301")])}


def main():
    assert tokenizers.__version__.startswith("0.23."), tokenizers.__version__
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({"components": list(entries())}, indent=1) + "\n")


if __name__ == "__main__":
    main()
