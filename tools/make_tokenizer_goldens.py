#!/usr/bin/env python3
"""Writes tests/goldens/tokenizer/*.json: tiny tokenizers of every kind and what the reference libraries make of texts.

Run in the oracle environment (./dev setup --oracles):
    build/oracle/bin/python tools/make_tokenizer_goldens.py

Each file holds one tokenizer ("tokenizer": a tokenizer.json, or "model_b64": a SentencePiece model, or "tiktoken": rank
lines) and cases: text, ids with and without special tokens, ids with special tokens not parsed, and for id lists the
decoded text with and without special tokens.
"""
import argparse
import base64
import io
import json
import pathlib
import random
import tempfile

import sentencepiece
import tiktoken
import tiktoken_ext.openai_public as openai_public
from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy
from mistral_common.tokens.tokenizers.tekken import Tekkenizer
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors, trainers)

CORPUS = """
The little engine counted its tokens one by one, and every token knew where it came from.
A baker sold twelve loaves on Monday, 24 on Tuesday and 1234567 crumbs; nobody paid $3.50 for them!
"Isn't it odd?" she'd say. "We've seen it, they're here, I'm sure he'll come." He didn't.
def add(a, b):\n    return a + b  # plain code\n\tif x == 0x1F: print('zero')
Der Fluß fließt über große Steine. L'été, la forêt où naît l'eau. El niño soñó con un pingüino.
Привет, мир! Как дела сегодня? Всё хорошо.
今日は天気がいいです。 漢字とかなを混ぜて書く。 你好，世界！ 안녕하세요 세계.
مرحبا بالعالم كيف حالك اليوم  हिन्दी में लिखना  สวัสดีชาวโลก  שלום עולם
Emoji: 😀 😃 👍🏽 👨‍👩‍👧 🇫🇷 and symbols → ≤ ≥ © ™ ½ ² Ⅷ
""".strip().split("\n")

TEXTS = [
    "", " ", "  ", "\n", "\t\t", " \n \r\n\n  ", "Hello", " Hello world", "Hello  world   again    ",
    "The engine's tokens: 1234567 and 3.14, isn't it? IT'S. They'Re 'ſ.",
    "don't DON'T we'll I'm you'd 've", "camelCaseHTTPServer XMLhttp iPhone", "a\u0301 e\u0301 caf\u00e9 cafe\u0301 \u0301x",
    "naïve über Straße ẞ İstanbul ǅ Σίσυφος ΣΑΣ", "日本語のテキスト 漢字かな交じり文。", "안녕하세요 한국어 \u1112\u1161\u11ab",
    "مرحبا بالعالم ۱۲۳", "हिन्दी में ज़िंदगी", "สวัสดีชาวโลก", "שָׁלוֹם עוֹלָם", "😀😃 👍🏽 👨‍👩‍👧 🇫🇷 ☃️ 🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    "tabs\tand\nnewlines\r\nand\u00a0nbsp\u3000wide\u2028line\u0085nel\u200bzero\u200djoin\ufeffbom", "x" * 90, "ab" * 40,
    " " * 37 + "end", "9" * 23, "!?!?... -- --- ____ ###", "<s> </s> <unk> [CLS] [MASK]", "<|end|>", "text<|end|>text <|end|>  <|user|> hi",
    "mask<mask>ed and <mask> here  <mask>", "wordtok tok wordtokword tok.", "UPPER Tok LOWER tok", "▁ under ▁▁ Ġ Ċ",
    "<0x0A> <0xFF>", "fi ﬁ ① Ⅷ ½ ² ㎏ ﬃ Ａ１ ｱ", "if (x == 0x1F) { return y[3]; } // end\n\n\tfor (;;) {}",
    "http://example.org/a?b=c&d=e%20f", "—em–dash “quotes” ‘single’ …", "\u0000\u0001\u007f\u0080control", "\U0001f171\u24d0 ªº ʰ",
    "trailing space ", "trailing newline\n", "\u0e33\u0e4d", "e\u0327\u0301 \u0301\u0327", "don 't do n't can not . , ! ? ' s",
    "中文1234中文,中文。English混合", "\U000e0100\u180e\u00ad soft", "|pipe||delim|", "aa  bb\n\ncc\n",
]

SPECIALS = ["<unk>", "<s>", "</s>", "<|end|>", "<|user|>"]
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


def train_bpe(pre, normalizer=None, vocab=420, alphabet=None, **model_args):
    tok = Tokenizer(models.BPE(**model_args))
    if normalizer is not None:
        tok.normalizer = normalizer
    if pre is not None:
        tok.pre_tokenizer = pre
    trainer_args = {k: v for k, v in model_args.items() if k in ("continuing_subword_prefix", "end_of_word_suffix")}
    trainer = trainers.BpeTrainer(vocab_size=vocab, special_tokens=SPECIALS, show_progress=False,
                                  initial_alphabet=alphabet or [], limit_alphabet=120, **trainer_args)
    tok.train_from_iterator(CORPUS, trainer)
    return tok


def byte_level(pre_steps, normalizer=None, ignore_merges=False):
    pre = pre_tokenizers.Sequence(pre_steps) if len(pre_steps) > 1 else pre_steps[0]
    tok = train_bpe(pre, normalizer, alphabet=pre_tokenizers.ByteLevel.alphabet())
    if ignore_merges:
        spec = json.loads(tok.to_str())
        spec["model"]["ignore_merges"] = True
        tok = Tokenizer.from_str(json.dumps(spec))
    tok.decoder = decoders.ByteLevel()
    return tok


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def raw_bytes():
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def with_byte_tokens(tok):
    """The same BPE with 256 byte pieces, byte_fallback and fuse_unk."""
    spec = json.loads(tok.to_str())
    vocab = spec["model"]["vocab"]
    for byte in range(256):
        vocab[f"<0x{byte:02X}>"] = len(vocab)
    spec["model"].update(byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    return Tokenizer.from_str(json.dumps(spec))


def spm_decoder(strip=True):
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence(steps + ([decoders.Strip(" ", 1, 0)] if strip else []))


def bos_template():
    return processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])


def spm_prepend():
    norm = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tok = with_byte_tokens(train_bpe(None, norm, vocab=330))
    tok.post_processor = bos_template()
    tok.decoder = spm_decoder()
    return tok


def spm_metaspace(scheme, split_words):
    tok = with_byte_tokens(train_bpe(pre_tokenizers.Metaspace("▁", scheme, split_words), vocab=330))
    tok.post_processor = bos_template()
    tok.decoder = decoders.Metaspace("▁", scheme) if split_words else spm_decoder()
    return tok


def clip_like():
    norm = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    pre = split(r"<\|end\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+", "removed", True)
    tok = train_bpe(pre, norm, vocab=400, unk_token="<unk>", end_of_word_suffix="</w>")
    tok.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 1), trim_offsets=True, add_prefix_space=False)
    tok.decoder = decoders.BPEDecoder("</w>")
    return tok


def visible_words(pre, normalizer=None):
    """Makes one token per character, whose spelling shows whether it starts a word, so that ids show the splits."""
    chars = sorted({c for line in CORPUS + TEXTS for c in line if c not in "\u0301"})
    vocab = {s: i for i, s in enumerate(SPECIALS)}
    for c in chars:
        vocab[c] = len(vocab)
        vocab["##" + c] = len(vocab)
    tok = Tokenizer(models.BPE(vocab=vocab, merges=[], unk_token="<unk>", continuing_subword_prefix="##"))
    tok.pre_tokenizer = pre
    if normalizer is not None:
        tok.normalizer = normalizer
    tok.add_special_tokens(SPECIALS)
    tok.decoder = decoders.WordPiece("##", cleanup=True)
    return tok


def small_charsmap(model_type="unigram", **extra):
    rules = pathlib.Path("/tmp") / "quire_golden_rules.tsv"
    pairs = {"ﬁ": "fi", "①": "1", "½": "1/2", "\u3000": " ", "\t": " ", "\n": " ", "Ａ": "A", "é": "e\u0301", "e\u0301": "é",
             "\u00ad": "", "ｱ": "ア", "☃️": "S"}
    rules.write_text("".join(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n"
                             for a, b in pairs.items()))
    args = dict(normalization_rule_tsv=str(rules))
    return train_spm(model_type, **args, **extra)


def train_spm(model_type, **extra):
    out = io.BytesIO()
    args = dict(vocab_size=300, hard_vocab_limit=False, character_coverage=1.0, minloglevel=2, num_threads=1)
    args.update(extra)
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(CORPUS), model_writer=out, model_type=model_type, **args)
    return out.getvalue()


def proto_fields(message):
    """(number, value) of a protocol-buffer message; lengths and varints as ints or bytes."""
    pos = 0

    def varint():
        nonlocal pos
        value = shift = 0
        while True:
            byte = message[pos]
            pos += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while pos < len(message):
        tag = varint()
        size = {0: None, 1: 8, 5: 4}.get(tag & 7, -1)
        if size is None:
            yield tag >> 3, varint()
            continue
        size = varint() if size < 0 else size
        yield tag >> 3, message[pos:pos + size]
        pos += size


def proto_charsmap(model):
    normalizer_spec = dict(proto_fields(model))[3]
    return base64.b64encode(dict(proto_fields(normalizer_spec))[2]).decode()


def tiktoken_spec(make, ranks):
    """Pattern and special tokens of a published encoding, with our ranks instead of downloaded ones."""
    names = ("load_tiktoken_bpe", "data_gym_to_mergeable_bpe_ranks")
    originals = [getattr(openai_public, name) for name in names]
    for name in names:
        setattr(openai_public, name, lambda *args, **kwargs: ranks)
    spec = make()
    for name, original in zip(names, originals):
        setattr(openai_public, name, original)
    return spec


def unigram(byte_fallback, normalizer, pre, decoder, charsmap=None):
    tok = Tokenizer(models.Unigram())
    tok.pre_tokenizer = pre
    if normalizer is not None:
        tok.normalizer = normalizer
    trainer = trainers.UnigramTrainer(vocab_size=320, special_tokens=SPECIALS, unk_token="<unk>", show_progress=False)
    tok.train_from_iterator(CORPUS, trainer)
    spec = json.loads(tok.to_str())
    if byte_fallback:
        spec["model"]["vocab"] += [[f"<0x{b:02X}>", -20.0] for b in range(256)]
        spec["model"]["byte_fallback"] = True
    if charsmap:
        spec["normalizer"] = {"type": "Sequence", "normalizers": [
            {"type": "Precompiled", "precompiled_charsmap": charsmap},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]}
    tok = Tokenizer.from_str(json.dumps(spec))
    tok.decoder = decoder
    tok.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 2)])
    return tok


def bert(lowercase, strip_accents):
    tok = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=40))
    tok.normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=strip_accents)
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=420, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
                                        show_progress=False)
    tok.train_from_iterator(CORPUS, trainer)
    tok.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tok.decoder = decoders.WordPiece()
    return tok


def word_level():
    tok = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tok.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase(),
                                           normalizers.Strip()])
    tok.pre_tokenizer = pre_tokenizers.Whitespace()
    tok.train_from_iterator(CORPUS, trainers.WordLevelTrainer(vocab_size=300, special_tokens=SPECIALS, show_progress=False))
    return tok


def ctc():
    chars = sorted({c for line in CORPUS for c in line.lower() if c.isalpha() and c < "z"})
    vocab = {c: i for i, c in enumerate(["<pad>", "<unk>", "|"] + chars)}
    tok = Tokenizer(models.WordLevel(vocab=vocab, unk_token="<unk>"))
    tok.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.Nmt(), normalizers.Lowercase(),
                                           normalizers.Replace(" ", "|")])
    tok.pre_tokenizer = split("", "isolated")
    tok.decoder = decoders.CTC()
    return tok


def added_flags():
    # The content of normalized tokens equals its normal form. The reference decodes others to their normal form and then does
    # not recognize special ones; Quire does not do the same.
    tok = byte_level([pre_tokenizers.ByteLevel(add_prefix_space=False)], normalizers.Lowercase())
    tok.add_tokens([AddedToken("tok", single_word=True), AddedToken("word", single_word=False, normalized=False),
                    AddedToken("  ", normalized=False), AddedToken("upper", normalized=True), AddedToken("é", normalized=False)])
    tok.add_special_tokens([AddedToken("<mask>", lstrip=True), AddedToken("<|sep|>", rstrip=True),
                            AddedToken("[MASK]", lstrip=True, rstrip=True), AddedToken("…", single_word=True)])
    tok.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), bos_template()])
    return tok


def hf_configs():
    yield "bytelevel_gpt2", byte_level([pre_tokenizers.ByteLevel(add_prefix_space=True)])
    yield "bytelevel_llama3", byte_level([split(LLAMA3), raw_bytes()], ignore_merges=True)
    yield "bytelevel_qwen2", byte_level([split(QWEN2), raw_bytes()], normalizers.NFC())
    pattern = tiktoken_spec(openai_public.o200k_base, {})["pat_str"]
    yield "bytelevel_o200k", byte_level([split(pattern), raw_bytes()])
    yield "bytelevel_deepseek", byte_level([
        split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"), split(r"\s+$"),
        split("[一-龥ࠀ-一가-퟿]+"), pre_tokenizers.Digits(individual_digits=True), raw_bytes()])
    yield "bytelevel_digits", byte_level([pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.ByteLevel(False)])
    yield "bytelevel_general_regex", byte_level([split(r"(?i)[a-z]+(?m:.)|\d{2}(?=\d)|\w+\b|\S\s?|\h"), raw_bytes()])
    yield "spm_prepend", spm_prepend()
    yield "spm_metaspace_first", spm_metaspace("first", False)
    yield "spm_metaspace_always_split", spm_metaspace("always", True)
    yield "clip_like", clip_like()
    yield "added_flags", added_flags()
    yield "unigram_metaspace", unigram(False, normalizers.NFKC(), pre_tokenizers.Metaspace(), decoders.Metaspace())
    yield "unigram_byte_fallback", unigram(True, None, pre_tokenizers.Metaspace("▁", "first", False), spm_decoder())
    yield "unigram_precompiled", unigram(False, None, pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]), decoders.Metaspace(), proto_charsmap(small_charsmap()))
    yield "bert_uncased", bert(True, None)
    yield "bert_cased", bert(False, False)
    yield "word_level", word_level()
    yield "ctc", ctc()
    yield "words_whitespace", visible_words(pre_tokenizers.Whitespace())
    yield "words_whitespace_split_punctuation", visible_words(pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("contiguous")]), normalizers.StripAccents())
    yield "words_char_delimiter", visible_words(pre_tokenizers.CharDelimiterSplit("|"), normalizers.NFKD())
    yield "words_fixed_length", visible_words(pre_tokenizers.FixedLength(5))
    for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        yield f"words_split_{behavior}", visible_words(split(r"[\s,.!?-]", behavior))
        yield f"words_split_{behavior}_inverted", visible_words(split(r"[a-z]+|\d", behavior, True))


def random_id_lists(size, count, seed):
    rng = random.Random(seed)
    return [[rng.randrange(size) for _ in range(rng.randrange(1, 12))] for _ in range(count)]


def hf_cases(tok):
    cases = []
    for text in TEXTS:
        tok.encode_special_tokens = False
        ids = tok.encode(text).ids
        plain = tok.encode(text, add_special_tokens=False).ids
        tok.encode_special_tokens = True
        unparsed = tok.encode(text, add_special_tokens=False).ids
        tok.encode_special_tokens = False
        cases.append(dict(text=text, ids=ids, ids_plain=plain, ids_unparsed=unparsed))
    size = tok.get_vocab_size()
    decodes = []
    for ids in [c["ids"] for c in cases] + random_id_lists(size, 60, 5):
        decodes.append(dict(ids=ids, text=tok.decode(ids, skip_special_tokens=False),
                            text_skip=tok.decode(ids, skip_special_tokens=True)))
    pieces = [tok.id_to_token(i) for i in range(0, size, 7)]
    return dict(size=size, cases=cases, decodes=decodes, pieces_step=7, pieces=pieces)


def spm_configs():
    common = dict(user_defined_symbols=["<sep>", "ab"], control_symbols=["<ctl>"])
    yield "spm_model_bpe", small_charsmap("bpe", byte_fallback=True, vocab_size=560, **common)
    yield "spm_model_bpe_no_fallback", train_spm("bpe", normalization_rule_name="identity", remove_extra_whitespaces=False,
                                                 split_digits=True, character_coverage=0.98)
    yield "spm_model_unigram", small_charsmap("unigram", **common)
    yield "spm_model_unigram_bytes", small_charsmap("unigram", byte_fallback=True, vocab_size=560, add_dummy_prefix=False)
    yield "spm_model_suffix", small_charsmap("unigram", treat_whitespace_as_suffix=True)


def spm_cases(model):
    sp = sentencepiece.SentencePieceProcessor(model_proto=model)
    cases = [dict(text=t, ids_unparsed=sp.encode(t)) for t in TEXTS + ["x<sep>y <sep> abab <ctl>"]]
    return dict(model_b64=base64.b64encode(model).decode(), size=sp.get_piece_size(), cases=cases, decodes=[])


def corpus_ranks():
    """Returns ranks: the bytes, then the most frequent joins of pieces in the corpus."""
    ranks = {bytes([b]): b for b in range(256)}
    words = [w.encode() for line in CORPUS for w in line.replace(" ", "\x00 ").split("\x00")]
    parts = [[bytes([b]) for b in w] for w in words]
    while len(ranks) < 420:
        counts = {}
        for p in parts:
            for a, b in zip(p, p[1:]):
                counts[a + b] = counts.get(a + b, 0) + 1
        best = max(counts, key=lambda k: (counts[k], k))
        ranks[best] = len(ranks)
        for i, p in enumerate(parts):
            out = []
            for piece in p:
                if out and out[-1] + piece == best:
                    out[-1] = best
                else:
                    out.append(piece)
            parts[i] = out
    return ranks


def rank_lines(ranks):
    return "".join(f"{base64.b64encode(p).decode()} {r}\n" for p, r in ranks.items())


def tiktoken_cases():
    ranks = corpus_ranks()
    lines = rank_lines(ranks)
    for name, make in (("r50k_base", openai_public.r50k_base), ("cl100k_base", openai_public.cl100k_base),
                       ("o200k_base", openai_public.o200k_base)):
        spec = tiktoken_spec(make, ranks)
        enc = tiktoken.Encoding(name="golden", pat_str=spec["pat_str"], mergeable_ranks=ranks,
                                special_tokens=spec["special_tokens"])
        cases = [dict(text=t, ids=enc.encode(t, allowed_special="all"), ids_unparsed=enc.encode_ordinary(t))
                 for t in TEXTS + ["a<|endoftext|>b"]]
        decodes = [dict(ids=ids, text=enc.decode(ids)) for ids in random_id_lists(420, 60, 6)]
        yield f"tiktoken_{name}", dict(tiktoken=lines, encoding=name, size=enc.n_vocab, cases=cases, decodes=decodes)


def kimi_cases():
    """Returns cases for a tiktoken.model like that of Moonshot's models, with the pattern of their tokenizer."""
    words = [r"[\p{Han}]+",
             r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
             r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
             r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"]
    ranks = corpus_ranks()
    base = len(ranks)
    named = {base: ("[BOS]", True), base + 1: ("[EOS]", True), base + 2: ("<|im_end|>", True), base + 5: ("<|tool_call_begin|>", False)}
    specials = {named[i][0] if i in named else f"<|reserved_token_{i}|>": i for i in range(base, base + 256)}
    enc = tiktoken.Encoding(name="golden", pat_str="|".join(words), mergeable_ranks=ranks, special_tokens=specials)
    texts = TEXTS + [f"a<|im_end|>b<|tool_call_begin|>c<|reserved_token_{base + 9}|>", "漢字and漢字's ǅ漢x"]
    added = {name for name, special in named.values() if not special}  # these are found anywhere in a text
    cases = [dict(text=t, ids=enc.encode(t, allowed_special="all"), ids_unparsed=enc.encode(t, allowed_special=added, disallowed_special=()))
             for t in texts]
    decodes = []
    for ids in random_id_lists(base + 8, 60, 6):
        left = [i for i in ids if not named.get(i, ("", i >= base))[1]]
        decodes.append(dict(ids=ids, text=enc.decode(ids), text_skip=enc.decode(left)))
    config = dict(tokenizer_class="TikTokenTokenizer", bos_token="[BOS]", eos_token="[EOS]", added_tokens_decoder={
        str(i): dict(content=name, special=special) for i, (name, special) in named.items()})
    return dict(kimi=rank_lines(ranks), config=config, size=enc.n_vocab, cases=cases, decodes=decodes)


def tekken_cases():
    """Two files: one that lists its special tokens, and an older one that does not."""
    ranks = corpus_ranks()
    vocab = [dict(rank=r, token_bytes=base64.b64encode(p).decode(), token_str=None) for p, r in ranks.items()]
    pattern = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?"
               r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    listed = [dict(rank=i, token_str=t, is_control=True) for i, t in enumerate(["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[ARGS]"])]
    for name, version, special_tokens in (("tekken_v3", "v3", None), ("tekken_v11", "v11", listed)):
        config = dict(pattern=pattern, num_vocab_tokens=len(vocab), default_vocab_size=430, default_num_special_tokens=24, version=version)
        file = dict(config=config, vocab=vocab, **({} if special_tokens is None else dict(special_tokens=special_tokens)))
        with tempfile.NamedTemporaryFile("w", suffix="tekken.json") as out:
            json.dump(file, out)
            out.flush()
            tok = Tekkenizer.from_file(out.name)
        cases = [dict(text=t, ids_unparsed=tok.encode(t, bos=False, eos=False)) for t in TEXTS]
        for case in cases:
            if not any(f"<{word}" in case["text"] for word in ("unk", "s", "/s")):
                case.update(ids=[tok.bos_id] + case["ids_unparsed"], ids_plain=case["ids_unparsed"])
        decodes = []
        for ids in random_id_lists(tok.n_words, 60, 6):
            # Special tokens are removed first, so that the parts of a character on both sides of one are joined.
            left = [i for i in ids if not tok.is_special(i)]
            decodes.append(dict(ids=ids, text=tok.decode(ids, SpecialTokenPolicy.KEEP), text_skip=tok.decode(left)))
        yield name, dict(tekken=file, size=tok.n_words, cases=cases, decodes=decodes)


def gguf_cases():
    """Returns the same BPE in the forms of Hugging Face's library and of a GGUF file, for each way to cut text into words."""
    contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
    o200k = tiktoken_spec(openai_public.o200k_base, {})["pat_str"]
    patterns = {
        "exaone-moe": [contractions + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"],
        "minimax-m2": [o200k],
        "tiny_aya": [r"\d{1,3}(?=(?:\d{3})*\b)", o200k],
        "minicpm5": [r"\p{N}{1,3}", LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}+")],
        "jais-2": [LLAMA3.replace(r"\s+(?!\S)|\s+", "|".join(rf"\s{{{n}}}(?!\S)" for n in ("512", "256", "128", "64", "32", "16", "8", "4", "1,2"))
                                  + r"|\s{1}")],
        "superbpe": [r"\p{N}+", r"(?=(\d{3})+(?!\d))"],
        "youtu": ["[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+", o200k.replace(r"\p{N}{1,3}", r"\p{N}")],
    }
    deepseek = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
    patterns["afmoe"] = [r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))",
                         "[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+", deepseek]
    for pre, texts in patterns.items():
        yield f"gguf_{pre.replace('-', '_')}", gguf_case("gpt2", pre, byte_level([split(p) for p in texts] + [raw_bytes()], ignore_merges=pre in ("minicpm5", "youtu")))
    metaspace = with_byte_tokens(train_bpe(None, normalizers.Replace(" ", "▁"), vocab=330))
    metaspace.decoder = spm_decoder(strip=False)
    yield "gguf_gemma4", gguf_case("gemma4", "", metaspace)


def gguf_case(model, pre, tok):
    spec = json.loads(tok.to_str())["model"]
    tokens = [tok.id_to_token(i) for i in range(tok.get_vocab_size())]
    types = [3 if t in SPECIALS else 1 for t in tokens]
    merges = [m if isinstance(m, str) else " ".join(m) for m in spec["merges"]]
    return dict(gguf=dict(model=model, pre=pre, tokens=tokens, token_types=types, merges=merges), **hf_cases(tok))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent / "tests/goldens/tokenizer")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    goldens = {name: dict(tokenizer=json.loads(tok.to_str()), **hf_cases(tok)) for name, tok in hf_configs()}
    goldens.update({name: spm_cases(model) for name, model in spm_configs()})
    goldens.update(dict(tiktoken_cases()))
    goldens.update(dict(tekken_cases()))
    goldens.update(dict(gguf_cases()))
    goldens["kimi"] = kimi_cases()
    for name, golden in goldens.items():
        (out / f"{name}.json").write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")) + "\n")
        print(f"{name}: {(out / f'{name}.json').stat().st_size} bytes")


if __name__ == "__main__":
    main()
