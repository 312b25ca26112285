#!/usr/bin/env python3
"""Random tokenizer.json files, read by Hugging Face tokenizers and by Quire, side by side.

    cmake --build build/release --target quire_tokenizer_compare
    build/oracle/bin/python tools/compare_random_tokenizers.py --compare build/release/src/tokenizer/quire_tokenizer_compare
        [--count 500] [--seed 1] [--keep FILE]

Each has a random model (BPE of bytes or characters, with and without affixes and byte fallback, Unigram, WordPiece, WordLevel)
and random normalizers, pre-tokenizers, post-processor, decoders and added tokens. Ids of random texts and texts of random
ids are compared, whole and streamed. Prints each difference with its seed; exit code 1 when there was one. Needs the
oracle environment (./dev setup --oracles).
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import tokenizers as tk
from make_tokenizer_goldens import CORPUS, TEXTS

SPECIALS = ["<unk>", "<s>", "</s>", "<|end|>"]
PATTERNS = [r"\s+", r"\d", r"[\s,.!?-]", r"\p{L}+|\p{N}{1,3}|[^\s\p{L}\p{N}]+", r" ?\w+|\S", r"[A-Z]?[a-z]+", r"$^", r"(?i)the|a\b",
            r"'s|'t| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", r"\s+(?!\S)|\s", r"x*", r"[^a-z]", r"\r?\n"]
ADDED = ["tok", "word", "  ", "<mask>", "<|sep|>", "[MASK]", "…", "Upper", "É", "the", "ing", " a", "a ", "▁x", "ﬁ", "\n", "-", "e\u0301",
         "12", "<|end|><s>", "in", "日本", "é", "<0x41>", "Ġa", "##s", " "]
SNIPPETS = TEXTS + CORPUS + ADDED + SPECIALS + [" ", "  ", "\n", "\t", "a", "A", ".", "'s", "do not", "é", "e\u0301", "\u00a0", "\u3000", "中",
                                              "x", "\u0301", "\u200d", "\u0130", "ß", "ﬀ", "½", "_", "1", "٣", "Ⅷ", "😀", "🇫🇷"]


# ---- parts ----------------------------------------------------------------------------------------------------------

def normalizer(r, depth=0):
    n = tk.normalizers
    makers = [n.NFC, n.NFD, n.NFKC, n.NFKD, n.Lowercase, n.StripAccents, n.Nmt,
              lambda: n.Strip(left=flip(r), right=flip(r)),
              lambda: n.Prepend(r.choice(["▁", " ", "ab", "Ġ"])),
              lambda: n.Replace(r.choice([" ", "a", "``", "the", "é", "  ", "."]), r.choice(["▁", "", " ", "bb", "'", "E\u0301"])),
              lambda: n.Replace(tk.Regex(r.choice(PATTERNS)), r.choice([" ", "", "▁", "x"])),
              lambda: n.BertNormalizer(clean_text=flip(r), handle_chinese_chars=flip(r),
                                       strip_accents=r.choice([None, True, False]), lowercase=flip(r))]
    if depth == 0 and r.random() < 0.4:
        return n.Sequence([normalizer(r, 1) for _ in range(r.randint(0, 3))])
    return r.choice(makers)()


def behavior(r):
    return r.choice(["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"])


def pre_tokenizer(r, depth=0):
    p = tk.pre_tokenizers
    makers = [lambda: p.ByteLevel(add_prefix_space=flip(r), use_regex=flip(r)),
              lambda: p.Metaspace(r.choice(["▁", "_"]), r.choice(["always", "first", "never"]), flip(r)),
              lambda: p.Split(tk.Regex(r.choice(PATTERNS)), behavior(r), flip(r)),
              lambda: p.Split(r.choice([" ", "a", "the", "▁", "\n"]), behavior(r), flip(r)),
              p.Whitespace, p.WhitespaceSplit, p.BertPreTokenizer, lambda: p.Punctuation(behavior(r)),
              lambda: p.Digits(flip(r)), lambda: p.CharDelimiterSplit(r.choice(["|", " ", "e", "▁", "中"])),
              lambda: p.FixedLength(r.randint(1, 6))]
    if depth == 0 and r.random() < 0.5:
        return p.Sequence([pre_tokenizer(r, 1) for _ in range(r.randint(1, 3))])
    return r.choice(makers)()


def decoder(r, depth=0):
    d = tk.decoders
    makers = [d.ByteLevel, d.ByteFallback, d.Fuse,
              lambda: d.Metaspace(r.choice(["▁", "_"]), r.choice(["always", "first", "never"]), flip(r)),
              lambda: d.WordPiece(r.choice(["##", "@@", ""]), flip(r)),
              lambda: d.BPEDecoder(r.choice(["</w>", "e"])),
              lambda: d.CTC(r.choice(["<pad>", "e"]), r.choice(["|", " "]), flip(r)),
              lambda: d.Strip(r.choice([" ", "▁", "e"]), r.randint(0, 2), r.randint(0, 2)),
              lambda: d.Replace(r.choice(["▁", "e", " ", "Ġ"]), r.choice([" ", "", "zz"])),
              lambda: d.Replace(tk.Regex(r.choice(PATTERNS)), r.choice([" ", "", "-"]))]
    if depth == 0 and r.random() < 0.5:
        return d.Sequence([decoder(r, 1) for _ in range(r.randint(0, 4))])
    return r.choice(makers)()


def post_processor(r, depth=0):
    p = tk.processors
    makers = [lambda: p.ByteLevel(trim_offsets=flip(r)),
              lambda: p.TemplateProcessing(single=r.choice(["<s> $A", "$A </s>", "<s> $A </s>", "$A:0", "<s> <s> $0 </s>"]),
                                           pair="$A $B", special_tokens=[("<s>", 1), ("</s>", 2)]),
              lambda: p.BertProcessing(("</s>", 2), ("<s>", 1)),
              lambda: p.RobertaProcessing(("</s>", 2), ("<s>", 1), flip(r), flip(r))]
    if depth == 0 and r.random() < 0.3:
        return p.Sequence([p.ByteLevel(trim_offsets=flip(r)), post_processor(r, 1)])
    return r.choice(makers)()


def flip(r):
    return r.random() < 0.5


# ---- tokenizers -----------------------------------------------------------------------------------------------------

def bpe(r, tok_parts):
    """Returns a BPE that was trained behind its own normalizer and pre-tokenizer."""
    affixes = {}
    if r.random() < 0.25:
        affixes["continuing_subword_prefix"] = r.choice(["##", "@"])
    if r.random() < 0.25:
        affixes["end_of_word_suffix"] = r.choice(["</w>", "/"])
    t = tk.Tokenizer(tk.models.BPE(**affixes))
    tok_parts(t)
    trainer = tk.trainers.BpeTrainer(vocab_size=r.randint(60, 500), special_tokens=SPECIALS, show_progress=False,
                                     initial_alphabet=tk.pre_tokenizers.ByteLevel.alphabet() if flip(r) else [],
                                     limit_alphabet=r.choice([40, 120, 500]), **affixes)
    t.train_from_iterator(CORPUS, trainer)
    spec = json.loads(t.to_str())
    model = spec["model"]
    model.update(fuse_unk=flip(r), ignore_merges=r.random() < 0.3, unk_token=r.choice([None, "<unk>"]))
    if r.random() < 0.3:
        for byte in range(256):
            model["vocab"].setdefault(f"<0x{byte:02X}>", len(model["vocab"]))
        model["byte_fallback"] = True
    return spec


def unigram(r, tok_parts):
    t = tk.Tokenizer(tk.models.Unigram())
    tok_parts(t)
    t.train_from_iterator(CORPUS, tk.trainers.UnigramTrainer(vocab_size=r.randint(200, 500), special_tokens=SPECIALS,
                                                             unk_token="<unk>", show_progress=False))
    spec = json.loads(t.to_str())
    if flip(r):
        spec["model"]["vocab"] += [[f"<0x{b:02X}>", -20.0] for b in range(256)]
        spec["model"]["byte_fallback"] = True
    return spec


def wordpiece(r, tok_parts):
    prefix = r.choice(["##", "@"])
    t = tk.Tokenizer(tk.models.WordPiece(unk_token="<unk>", max_input_chars_per_word=r.choice([5, 40, 100]),
                                         continuing_subword_prefix=prefix))
    tok_parts(t)
    t.train_from_iterator(CORPUS, tk.trainers.WordPieceTrainer(vocab_size=r.randint(150, 500), special_tokens=SPECIALS,
                                                               continuing_subword_prefix=prefix, show_progress=False))
    return json.loads(t.to_str())


def word_level(r, tok_parts):
    t = tk.Tokenizer(tk.models.WordLevel(unk_token="<unk>"))
    tok_parts(t)
    t.train_from_iterator(CORPUS, tk.trainers.WordLevelTrainer(vocab_size=r.randint(50, 400), special_tokens=SPECIALS,
                                                               show_progress=False))
    return json.loads(t.to_str())


def random_tokenizer(r):
    def set_parts(t):
        if r.random() < 0.6:
            t.normalizer = normalizer(r)
        if r.random() < 0.85:
            t.pre_tokenizer = pre_tokenizer(r)

    spec = r.choice([bpe, bpe, unigram, wordpiece, word_level])(r, set_parts)
    t = tk.Tokenizer.from_str(json.dumps(spec))
    if r.random() < 0.8:
        t.decoder = decoder(r)
    if r.random() < 0.6:
        t.post_processor = post_processor(r)
    for content in r.sample(ADDED, r.randint(0, 5)):
        # The reference decodes a normalized token to its normal form, and then does not recognize it as special. Quire does not
        # do the same.
        is_normal = t.normalizer is None or t.normalizer.normalize_str(content) == content
        token = tk.AddedToken(content, single_word=r.random() < 0.3, lstrip=r.random() < 0.3, rstrip=r.random() < 0.3,
                              normalized=flip(r) and is_normal)
        (t.add_special_tokens if flip(r) else t.add_tokens)([token])
    return t


# ---- cases ----------------------------------------------------------------------------------------------------------

def random_text(r):
    return "".join(r.choice(SNIPPETS) for _ in range(r.randint(1, 6)))


def starts_late(t):
    """Returns whether Metaspace "first" would differ: it uses offsets into the original text, which text that was prepended
    also has."""
    spec = json.dumps([json.loads(t.to_str())[part] for part in ("normalizer", "pre_tokenizer")])
    return '"first"' in spec and ('"Prepend"' in spec or '"ByteLevel"' in spec)


def golden(r, seed):
    t = random_tokenizer(r)
    while starts_late(t):
        t = random_tokenizer(r)
    cases, decodes = [], []
    for _ in range(25):
        text = random_text(r)
        t.encode_special_tokens = False
        case = dict(text=text, ids=t.encode(text).ids, ids_plain=t.encode(text, add_special_tokens=False).ids)
        t.encode_special_tokens = True
        case["ids_unparsed"] = t.encode(text, add_special_tokens=False).ids
        cases.append(case)
    size = t.get_vocab_size()
    lists = [case["ids"] for case in cases] + [[r.randrange(size) for _ in range(r.randint(1, 12))] for _ in range(15)]
    for ids in lists:
        decodes.append(dict(ids=ids, text=t.decode(ids, skip_special_tokens=False), text_skip=t.decode(ids)))
    pieces = [t.id_to_token(i) for i in range(0, size, 3)]
    return dict(name=f"seed {seed}", tokenizer=json.loads(t.to_str()), size=size, cases=cases, decodes=decodes,
                pieces_step=3, pieces=pieces)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--compare", required=True, help="the quire_tokenizer_compare binary")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path, help="where the goldens go, one a line")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.keep or pathlib.Path(folder) / "goldens.jsonl"
        num_unusable = 0
        with path.open("w") as out:
            for seed in range(options.seed, options.seed + options.count):
                try:
                    line = json.dumps(golden(random.Random(seed), seed))
                except BaseException as error:  # the library's panics are not Exceptions
                    if isinstance(error, KeyboardInterrupt):
                        raise
                    num_unusable += 1
                    continue
                out.write(line + "\n")
        print(f"{options.count - num_unusable} random tokenizers, {num_unusable} that the library itself refused", flush=True)
        return subprocess.run([options.compare, path]).returncode


if __name__ == "__main__":
    sys.exit(main())
