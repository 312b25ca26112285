#!/usr/bin/env python3
"""Writes src/tokenizer/unicode/unicode_categories.cc, unicode_scripts.cc and unicode_lowercase.cc: the Unicode data of tokenizers.

    pip install unicodedata2==16.0.0 fonttools==4.56.0 tokenizers==0.23.3
    python tools/make_unicode_tables.py

General categories and scripts are those of Unicode 16.0, which the regular expressions of Hugging Face's tokenizers go by.
Other parts of that library carry older or newer data of their own (its punctuation is that of Unicode 8, its lower case that
of Unicode 17). What those say about each code point is asked of the library and kept beside the category.

The data are derived from the Unicode Character Database; src/tokenizer/unicode/UNICODE_LICENSE holds its licence.
"""

import pathlib
import unicodedata

import unicodedata2
from fontTools import unicodedata as scripts
from tokenizers import Regex, normalizers, pre_tokenizers

OUT = pathlib.Path(__file__).resolve().parent.parent / "src/tokenizer"
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
# The order of GeneralCategory in unicode_data.h.
CATEGORIES = "Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cs".split()
LEGACY_PUNCTUATION, LEGACY_NON_SPACING, LEGACY_CONTROL = 1, 2, 3
HEAD = """// Written by tools/make_unicode_tables.py from Unicode 16.0; see UNICODE_LICENSE.
#include "tokenizer/unicode/unicode_data.h"

namespace quire::unicode_internal {

"""


def bert(**options):
    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**off, **options})


def dropped_by(normalizer):
    return {c for c in CODE_POINTS if normalizer.normalize_str(f"a{chr(c)}b") == "ab"}


def isolated_by(pre_tokenizer):
    return {c for c in CODE_POINTS if len(pre_tokenizer.pre_tokenize_str(f"a{chr(c)}b")) != 1}


def opaque_to_normal_forms():
    """Returns code points whose normal forms in the library differ from those of Unicode 14; the library knows no newer ones."""
    def differs(c):
        for form in ("NFC", "NFD", "NFKC", "NFKD"):
            normalizer = getattr(normalizers, form)()
            for text in (chr(c), f"a{chr(c)}\u0323", f"a\u0301{chr(c)}\u0323"):
                if normalizer.normalize_str(text) != unicodedata.normalize(form, text):
                    return True
        return False
    return {c for c in CODE_POINTS if differs(c)}


def runs(value_of):
    """Returns (first code point, value) for each run of equal values."""
    last = None
    for c in range(0x110000):
        value = value_of(c)
        if value != last:
            yield c, value
            last = value


def print_numbers(numbers):
    lines = []
    for i in range(0, len(numbers), 8):
        lines.append("    " + " ".join(f"0x{n:08x}," for n in numbers[i:i + 8]))
    return "\n".join(lines)


def write_categories():
    punctuation = isolated_by(pre_tokenizers.Punctuation())
    non_spacing = dropped_by(bert(strip_accents=True))
    control = dropped_by(bert(clean_text=True))
    marks = dropped_by(normalizers.StripAccents())
    numeric = isolated_by(pre_tokenizers.Digits(individual_digits=True))
    opaque = opaque_to_normal_forms()

    def value(c):
        legacy = (LEGACY_PUNCTUATION if c in punctuation else
                  LEGACY_NON_SPACING if c in non_spacing else LEGACY_CONTROL if c in control else 0)
        category = unicodedata2.category(chr(c))
        is_newer = category != unicodedata.category(chr(c))  # newer than Unicode 14
        return (CATEGORIES.index(category) | legacy << 5 | is_newer << 7 | (c in marks) << 8 |
                (is_newer or c in opaque) << 9 | (c in numeric) << 10)

    numbers = [first << 11 | v for first, v in runs(value)]
    text = (f"const std::array<uint32_t, kNumCategoryRuns> kCategoryRuns{{{{\n{print_numbers(numbers)}\n}}}};\n")
    (OUT / "unicode_categories.cc").write_text(f"{HEAD}{text}\n}}  // namespace quire::unicode_internal\n")
    return len(numbers)


def write_scripts():
    names = {scripts.script(chr(c)) for c in CODE_POINTS}
    order = ["Zzzz"] + sorted(names - {"Zzzz"})
    splitter = pre_tokenizers.UnicodeScripts()

    def is_known(c):
        if 0xD800 <= c < 0xE000:
            return False
        return any(len(splitter.pre_tokenize_str(other + chr(c))) > 1 for other in "aかя.")

    def was_common(c):
        """Returns whether a character is one of the two that moved from Common to a script after the library's table was made."""
        return is_known(c) and scripts.script(chr(c)) != "Zyyy" and len(splitter.pre_tokenize_str("." + chr(c))) == 1

    def value(c):
        script = scripts.script(chr(c)) if not 0xD800 <= c < 0xE000 else "Zzzz"
        return order.index(script) | is_known(c) << 8 | was_common(c) << 9

    numbers = [first << 11 | v for first, v in runs(value)]
    listed = [f'    {{"{code}", "{scripts.script_name(code)}"}},' for code in order]
    text = (f"const std::array<uint32_t, kNumScriptRuns> kScriptRuns{{{{\n{print_numbers(numbers)}\n}}}};\n\n"
            f"const std::array<ScriptName, kNumScripts> kScriptNames{{{{\n" + "\n".join(listed) + "\n}};\n")
    (OUT / "unicode_scripts.cc").write_text(f"{HEAD}{text}\n}}  // namespace quire::unicode_internal\n")
    return len(numbers), len(order)


def write_lowercase():
    lower = normalizers.Lowercase()
    pairs = []
    for c in CODE_POINTS:
        mapped = lower.normalize_str(chr(c))
        if mapped != chr(c) and len(mapped) == 1:
            pairs.append((c, ord(mapped) - c))
    ranges = []  # [first, last, stride, delta]
    for c, delta in pairs:
        if ranges and ranges[-1][3] == delta:
            first, last, stride, _ = ranges[-1]
            if (first == last and c - last <= 2) or (first != last and c - last == stride):
                ranges[-1] = [first, c, c - last, delta]
                continue
        ranges.append([c, c, 1, delta])
    lines = [f"    {{0x{first:04x}, 0x{last:04x}, {stride}, {delta}}}," for first, last, stride, delta in ranges]
    text = f"const std::array<LowercaseRange, kNumLowercaseRanges> kLowercaseRanges{{{{\n" + "\n".join(lines) + "\n}};\n"
    (OUT / "unicode_lowercase.cc").write_text(f"{HEAD}{text}\n}}  // namespace quire::unicode_internal\n")
    return len(ranges)


def main():
    assert unicodedata2.unidata_version == "16.0.0"
    assert unicodedata.unidata_version == "14.0.0", "expected Python 3.11, whose Unicode data PCRE2 10.40 has"
    print("kNumCategoryRuns", write_categories())
    print("kNumScriptRuns, kNumScripts", write_scripts())
    print("kNumLowercaseRanges", write_lowercase())


if __name__ == "__main__":
    main()
