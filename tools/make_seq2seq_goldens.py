#!/usr/bin/env python3
"""Tiny random models with an encoder and a decoder, and what transformers computes with them.

    build/oracle/bin/python tools/make_seq2seq_goldens.py [NAME ...]

Writes tests/goldens/seq2seq/NAME/: config.json, generation_config.json and safetensors as transformers saves them, for
some a tokenizer, or all of that in a GGUF file; and golden.json: for sources of several lengths what the encoder makes of them, and 64 greedy tokens
behind what the decoder begins with, with logits of some steps and the smallest gap between the two best on the way;
where there is a tokenizer, texts and what is generated of them (float32, eager attention). Every parameter is random.
Needs the oracle environment (./dev setup --oracles).
"""

import base64
import copy
import io
import json
import pathlib
import shutil
import sys

import numpy as np
import sentencepiece
import tokenizers
import torch
import transformers as tf
from safetensors.torch import load_file, save_file

import make_tokenizer_goldens
import quant_layouts
import text_source_gguf
from make_quant_vectors import compressed

ROOT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "goldens" / "seq2seq"
VOCAB = 160
STEPS = 64
KEPT_STEPS = [0, 1, 19, STEPS - 1]
LENGTHS = [41, 3, 18]
SENTINELS = 8
MAX_BF16_ERROR = 0.07  # tests/laws/seq2seq_test.cc allows 0.06, and sums are float32 there
MIN_GAP = 2e-3  # float32 noise is near 1e-5: below this a greedy token would prove nothing
TEXTS = ["translate: the cat sat on the mat", "A <extra_id_0> walks into <extra_id_1> bar.", "é 1 + 1 = 2?"]

torch.set_num_threads(1)


def b64(array):
    return base64.b64encode(np.ascontiguousarray(array, dtype="<f4").tobytes()).decode()


def t5(kind=tf.T5Config, **more):
    base = dict(vocab_size=VOCAB, d_model=32, d_kv=12, d_ff=56, num_layers=3, num_decoder_layers=2, num_heads=4,
                relative_attention_num_buckets=16, relative_attention_max_distance=24, n_positions=96,
                decoder_start_token_id=0, pad_token_id=0, eos_token_id=1)
    return kind(**dict(base, **more))


def bart(kind=tf.BartConfig, **more):
    base = dict(vocab_size=VOCAB, d_model=32, encoder_layers=2, decoder_layers=3, encoder_attention_heads=4,
                decoder_attention_heads=2, encoder_ffn_dim=48, decoder_ffn_dim=56, max_position_embeddings=90,
                pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=None)
    return kind(**dict(base, **more))


def variants():
    """name -> (configuration, class, forced BOS, options)"""
    return {
        "t5": (t5(), tf.T5ForConditionalGeneration, None, dict(tokenizer="unigram")),
        "flan_t5": (t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False), tf.T5ForConditionalGeneration, None,
                    dict(own_head=True)),
        "mt5": (t5(tf.MT5Config, feed_forward_proj="gated-silu"), tf.MT5ForConditionalGeneration, None,
                dict(own_head=True, tokenizer="spiece")),
        "t5_int8": (t5(feed_forward_proj="gated-gelu"), tf.T5ForConditionalGeneration, None, dict(quantized="int8",
                                                                                                      max_error=0.05)),
        "bart_int4": (bart(decoder_ffn_dim=64), tf.BartForConditionalGeneration, 0, dict(quantized="int4")),
        # GGUF files do not state the distance from which on biases are equal; it is 128.
        "gguf_t5": (t5(relative_attention_max_distance=128), tf.T5ForConditionalGeneration, None, dict(gguf=True)),
        "gguf_umt5": (t5(tf.UMT5Config, feed_forward_proj="gated-gelu", relative_attention_max_distance=128),
                      tf.UMT5ForConditionalGeneration, None, dict(gguf=True)),
        "gguf_flan_t5": (t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False, relative_attention_max_distance=128),
                         tf.T5ForConditionalGeneration, None, dict(own_head=True, gguf=True)),
        "umt5": (t5(tf.UMT5Config), tf.UMT5ForConditionalGeneration, None, {}),
        "bart": (bart(), tf.BartForConditionalGeneration, 0, dict(tokenizer="bytes")),
        "mbart": (bart(tf.MBartConfig, scale_embedding=True, activation_function="relu"),
                  tf.MBartForConditionalGeneration, 150, {}),
    }


def make_model(config, kind, seed, options):
    config._attn_implementation = "eager"
    model = kind(config).eval()
    if options.get("own_head"):
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in list(model.named_parameters()) + list(model.named_buffers()):
            # A tied head is the embedding, so what layers and positions add must outweigh the embedding, or every token repeats
            # itself. It must also outweigh what is the same at every step.
            is_matrix = tensor.ndim > 1 and "bias" not in name
            spread = 0.06 if "shared" in name or "embed_tokens" in name else 0.5 if is_matrix else 0.1
            spread = 1.0 if "relative_attention_bias" in name else spread
            if name.endswith(("encoder_attn.out_proj.weight", "fc2.weight")):
                spread = 0.15  # the source is the same at every step, and activations have a mean
            if name.endswith((".q.weight", ".k.weight", "q_proj.weight", "k_proj.weight")):
                spread *= 0.4  # T5 does not scale scores
            if isinstance(config, tf.BartConfig):  # norms behind sums forget tokens, so larger positions distinguish the steps
                spread = {"embed_positions.weight": 0.8, "shared.weight": 0.08, "v_proj.weight": 0.15, "out_proj.weight": 0.15,
                          "fc2.weight": 0.05}.get(
                    ".".join(name.split(".")[-2:]), spread)
            tensor.normal_(0.0, spread, generator=generator)
            if "norm" in name and name.endswith("weight"):
                last = name.endswith(("decoder.final_layer_norm.weight", "decoder.layer_norm.weight"))
                tensor.add_(8.0 if last else 1.5 if "embedding" in name else 1.0)
    if options.get("gguf"):
        text_source_gguf.round_matrices(model)
    return model


QUANTIZED = {
    "int8": (compressed("int-quantized", bits=8, strategy="channel"), quant_layouts.int8),
    "int4": (compressed("pack-quantized", group=16), lambda w: quant_layouts.pack_quantized(w, 4, 16, True)),
}


@torch.no_grad()
def quantize(model, kind):
    """Quantizes every linear layer except the head in place; returns what is stored, by name."""
    stored = {}
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and name != "lm_head":
            tensors, exact = QUANTIZED[kind][1](module.weight.detach().numpy().astype(np.float32))
            module.weight.copy_(torch.from_numpy(np.ascontiguousarray(exact)))
            stored.update({f"{name}.{suffix}": value.contiguous() for suffix, value in tensors.items()})
    return stored


def store_quantized(folder, kind, stored):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    modules = {name.rsplit(".", 1)[0] for name in stored}
    kept = {name: tensor for name, tensor in tensors.items() if name.removesuffix(".weight") not in modules}
    save_file(kept | stored, path, metadata={"format": "pt"})
    path = folder / "config.json"
    path.write_text(json.dumps(dict(json.loads(path.read_text()), quantization_config=QUANTIZED[kind][0]), indent=1) + "\n")


@torch.no_grad()
def error_in_bfloat16(model, golden, start):
    """Returns the error of the last step's logits, as a share of their norm, with weights, activations and sums in bfloat16."""
    rough = copy.deepcopy(model).bfloat16()
    ids = torch.tensor([list(start) + golden["tokens"][:-1]])
    logits = [m(input_ids=torch.tensor([golden["text"]]), decoder_input_ids=ids).logits[0, -1].float()
              for m in (model, rough)]
    return float((logits[0] - logits[1]).norm() / logits[0].norm())


@torch.no_grad()
def greedy(model, source, start):
    encoded = model.get_encoder()(torch.tensor([source])).last_hidden_state
    tokens, gap, rows = list(start), 1e9, []
    for _ in range(STEPS):
        logits = model(encoder_outputs=(encoded,), decoder_input_ids=torch.tensor([tokens])).logits[0, -1].float()
        rows.append(logits.numpy())
        top = torch.topk(logits, 2).values
        gap = min(gap, float(top[0] - top[1]))
        tokens.append(int(logits.argmax()))
        if gap < MIN_GAP:
            return None, gap, 0
    made = tokens[len(start):]
    golden = dict(text=source, encoded_f32_base64=b64(encoded[0].numpy()), tokens=made,
                  logits_f32_base64=b64(np.stack([rows[step] for step in KEPT_STEPS])))
    return golden, gap, len(set(made))


def unigram():
    """Returns a tokenizer like T5's file: pieces with scores, words that begin with a space, sentinels, and </s> at the end."""
    words = "▁the ▁cat ▁a ▁walk s ▁in to ▁mat ▁sat ▁on trans late : . ▁bar ing er ed ▁re".split()
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)] + list("▁ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789,.?!-+='")
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    pieces += [(p, -2.0 - 0.01 * i) for i, p in enumerate(words)]
    pieces += [(p, -6.0 - 0.01 * i) for i, p in enumerate(dict.fromkeys(letters)) if p not in words]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.Unigram(pieces, unk_id=2))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.decoder = tokenizers.decoders.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>"])
    tokenizer.add_special_tokens([f"<extra_id_{i}>" for i in reversed(range(SENTINELS))])
    return tf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", unk_token="<unk>",
                                      pad_token="<pad>")


def spiece(folder):
    """Writes a tokenizer like mT5's folder: only the model of SentencePiece, with a count of sentinels in
    tokenizer_config.json."""
    out = io.BytesIO()
    lines = [line for line in make_tokenizer_goldens.CORPUS if line.isascii()]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines + TEXTS[:1]), model_writer=out, model_type="unigram", vocab_size=100,
        bos_id=-1, pad_id=0, eos_id=1, unk_id=2, minloglevel=2, num_threads=1)
    (folder / "spiece.model").write_bytes(out.getvalue())
    (folder / "tokenizer_config.json").write_text(json.dumps(
        dict(tokenizer_class="T5Tokenizer", extra_ids=SENTINELS, eos_token="</s>", unk_token="<unk>", pad_token="<pad>"),
        indent=1) + "\n")
    return tf.AutoTokenizer.from_pretrained(folder)


def byte_bpe():
    """Returns a tokenizer like BART's file: bytes, <s> before and </s> behind the text. The vocabulary has not all bytes."""
    alphabet = [b for b in sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()) if ord(b) < 127 or b == "Ġ"]
    vocab = {piece: i for i, piece in enumerate(["<s>", "<pad>", "</s>", "<unk>"] + alphabet)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocab, merges=[], unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.post_processor = tokenizers.processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>"])
    return tf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>",
                                      unk_token="<unk>", pad_token="<pad>")


def answers(model, tokenizer, limit):
    """Returns the answers of text2text generation."""
    made = []
    for text in TEXTS:
        ids = tokenizer(text, return_tensors="pt").input_ids
        out = model.generate(ids, max_new_tokens=limit, do_sample=False, num_beams=1)[0]
        made.append(dict(text=text, source=ids[0].tolist(), answer=tokenizer.decode(out, skip_special_tokens=True)))
    return made


def make(name):
    config, kind, forced_bos, options = variants()[name]
    start = [config.decoder_start_token_id] + ([forced_bos] if forced_bos is not None else [])
    numbers = np.random.default_rng(3)
    sources = [[int(i) for i in numbers.integers(3, config.vocab_size, length)] for length in LENGTHS]
    for seed in range(2000):
        model = make_model(config, kind, seed, options)
        stored = quantize(model, options["quantized"]) if "quantized" in options else {}
        made = [greedy(model, source, start) for source in sources]
        if min(m[1] for m in made) < MIN_GAP:
            continue
        if sum(m[2] for m in made) < 11 or len({tuple(m[0]["tokens"]) for m in made}) < len(made):
            continue
        if max(error_in_bfloat16(model, m[0], start) for m in made) <= options.get("max_error", MAX_BF16_ERROR):
            break
    else:
        raise SystemExit(f"{name}: no seed")
    out = ROOT / name
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    model.generation_config.forced_bos_token_id = forced_bos
    golden = dict(start=start, steps=KEPT_STEPS, min_gap=round(min(m[1] for m in made), 6),
                  sources=[m[0] for m in made])
    if kind_of := options.get("tokenizer"):
        if kind_of == "spiece":
            tokenizer = spiece(out)
        else:
            tokenizer = unigram() if kind_of == "unigram" else byte_bpe()
            tokenizer.save_pretrained(out)
        golden["answer_tokens"] = 24
        golden["answers"] = answers(model, tokenizer, golden["answer_tokens"] + len(start) - 1)
    if options.get("gguf"):
        text_source_gguf.write_gguf(out / "model.gguf", model)
    else:
        model.save_pretrained(out)
    if stored:
        store_quantized(out, options["quantized"], stored)
    golden.update(transformers=tf.__version__, torch=torch.__version__.split("+")[0])
    (out / "golden.json").write_text(json.dumps(golden) + "\n")
    print(f"{name}: seed {seed} gap {golden['min_gap']}", sum(f.stat().st_size for f in out.iterdir()) // 1024, "KiB")


if __name__ == "__main__":
    for wanted in sys.argv[1:] or variants():
        make(wanted)
