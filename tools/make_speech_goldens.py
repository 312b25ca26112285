#!/usr/bin/env python3
"""A recording, what transformers' WhisperFeatureExtractor makes of it, and a tiny random Whisper that listens to it.

    build/oracle/bin/python tools/make_speech_goldens.py

Writes tests/goldens/speech/whisper/: recording.wav; config.json, generation_config.json, preprocessor_config.json,
safetensors and a tokenizer of bytes; and golden.json: frames of the log-mel spectrogram for 80 and 128 bands in windows
of 30 s; for two windows of the tiny model's one second the bands, the encoder's output, logits and greedy tokens with
and without the rules of timestamps, and the language that it hears; and how transformers writes down all of the
recording, window by window, with the time of each token and what that makes of words (float32, eager attention). Needs the oracle environment (./dev setup --oracles).
"""

import base64
import json
import pathlib
import shutil
import wave

import numpy as np
import tokenizers
import torch
import transformers as tf
from transformers.models.whisper.tokenization_whisper import _collate_word_timestamps
from transformers.generation.logits_process import (SuppressTokensAtBeginLogitsProcessor, SuppressTokensLogitsProcessor,
                                                    WhisperTimeStampLogitsProcessor)

ROOT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "goldens" / "speech" / "whisper"
RATE = 16000
SECONDS = 3.3
STEPS = 64
MIN_GAP = 1e-3  # float32 noise is near 1e-5: below this a greedy token would prove nothing
POSITIONS = 50  # a window of one second
LANGUAGES = ["en", "de", "fr", "es", "ja"]
MARKS = (["<|endoftext|>", "<|startoftranscript|>"] + [f"<|{l}|>" for l in LANGUAGES]
         + ["<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"])
TIMES = [f"<|{i * 0.02:.2f}|>" for i in range(POSITIONS + 1)]
ID = {mark: 256 + i for i, mark in enumerate(MARKS + TIMES)}
VOCAB = 256 + len(ID)
END, START, FIRST_TIME, NO_TIMES = ID["<|endoftext|>"], ID["<|startoftranscript|>"], ID["<|0.00|>"], ID["<|notimestamps|>"]
# [layer, head] of the attention that shows which frames a token belongs to.
ALIGNMENT_HEADS = [[0, 1], [1, 0], [1, 1]]
SUPPRESSED = [1, 2, 7, 40, START, ID["<|translate|>"], ID["<|transcribe|>"], ID["<|startoflm|>"],
              ID["<|startofprev|>"], ID["<|nospeech|>"]]
FIRST_SUPPRESSED = [32, END]

torch.set_num_threads(1)


def b64(array):
    return base64.b64encode(np.ascontiguousarray(array, dtype="<f4").tobytes()).decode()


def recording():
    """Returns gliding tones, a pause and noise, in 16 bits."""
    random = np.random.default_rng(5)
    t = np.arange(int(SECONDS * RATE)) / RATE
    voice = sum(0.25 / k * np.sin(2 * np.pi * k * (140 + 60 * np.sin(2.1 * t)) * t) for k in (1, 2, 3, 5))
    hiss = 0.2 * random.standard_normal(len(t)) * (np.sin(9 * t) > 0.3)
    out = (voice * (np.sin(3.5 * t) > -0.4) + hiss) * ((t < 1.4) | (t > 1.75))
    return np.clip(out * 0.6 * 32767, -32768, 32767).astype(np.int16)


def write_wav(path, samples):
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(samples.astype("<i2").tobytes())


def mel_golden(samples, bands):
    extractor = tf.WhisperFeatureExtractor(feature_size=bands)
    features = extractor(samples, sampling_rate=RATE, return_tensors="np", do_normalize=False)["input_features"][0]
    frames = sorted({0, 1, 2, 3, *range(5, 340, 11), 1000, 2998, 2999})
    return dict(bands=bands, frames=frames, values_f32_base64=b64(features[:, frames].T))


def write_tokenizer():
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    model = tokenizers.models.BPE(vocab={piece: i for i, piece in enumerate(alphabet)}, merges=[])
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens([tokenizers.AddedToken(mark, special=True, normalized=False) for mark in MARKS])
    # As in Whisper's own file, these tokens are not special.
    tokenizer.add_tokens([tokenizers.AddedToken(time, special=False, normalized=False) for time in TIMES])
    assert all(tokenizer.token_to_id(text) == number for text, number in ID.items())
    fast = tf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>")
    fast.save_pretrained(ROOT)


def make_model(seed):
    config = tf.WhisperConfig(vocab_size=VOCAB, num_mel_bins=8, encoder_layers=2, decoder_layers=2, d_model=32,
                              encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=56,
                              decoder_ffn_dim=48, max_source_positions=POSITIONS, max_target_positions=160,
                              pad_token_id=END, bos_token_id=END, eos_token_id=END, decoder_start_token_id=START,
                              suppress_tokens=None, begin_suppress_tokens=None)
    config._attn_implementation = "eager"
    model = tf.WhisperForConditionalGeneration(config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "encoder.embed_positions" in name:
                continue  # sinusoids
            spread = 0.12 if "embed_tokens" in name else 0.35 if parameter.ndim > 1 else 0.2
            parameter.normal_(0.0, spread, generator=generator)
            if "layer_norm" in name and name.endswith("weight"):
                parameter.add_(1.0)
    generation = model.generation_config
    fields = dict(suppress_tokens=SUPPRESSED, begin_suppress_tokens=FIRST_SUPPRESSED, is_multilingual=True,
                  no_timestamps_token_id=NO_TIMES, max_initial_timestamp_index=25, max_length=160,
                  prev_sot_token_id=ID["<|startofprev|>"], return_timestamps=False,
                  lang_to_id={f"<|{l}|>": ID[f"<|{l}|>"] for l in LANGUAGES},
                  task_to_id=dict(transcribe=ID["<|transcribe|>"], translate=ID["<|translate|>"]),
                  alignment_heads=ALIGNMENT_HEADS,
                  pad_token_id=END, bos_token_id=END, eos_token_id=END, decoder_start_token_id=START)
    for name, value in fields.items():
        setattr(generation, name, value)
    return model


def processors(model, begin, with_times):
    made = [SuppressTokensAtBeginLogitsProcessor(FIRST_SUPPRESSED, begin), SuppressTokensLogitsProcessor(SUPPRESSED)]
    if with_times:
        made.append(WhisperTimeStampLogitsProcessor(model.generation_config, begin_index=begin))
    return made


@torch.no_grad()
def greedy(model, encoded, prompt, rules):
    """Returns greedy tokens by the rules, their smallest gap, and the raw logits of the last prompt token and all steps but
    the last."""
    tokens, gap, rows = list(prompt), 1e9, []
    for _ in range(STEPS):
        logits = model(encoder_outputs=(encoded,), decoder_input_ids=torch.tensor([tokens])).logits[0, -1:].float()
        rows.append(logits[0].numpy())
        for rule in rules:
            logits = rule(torch.tensor([tokens]), logits)
        top = torch.topk(logits[0], 2).values
        gap = min(gap, float(top[0] - top[1]))
        tokens.append(int(logits[0].argmax()))
    return tokens[len(prompt):], gap, np.stack(rows)


@torch.no_grad()
def window_golden(model, samples):
    extractor = tf.WhisperFeatureExtractor(feature_size=8, chunk_length=1)
    features = extractor(samples, sampling_rate=RATE, return_tensors="pt")["input_features"]
    encoded = model.model.encoder(features).last_hidden_state
    first = model(encoder_outputs=(encoded,), decoder_input_ids=torch.tensor([[START]])).logits[0, -1]
    heard = max(LANGUAGES, key=lambda l: float(first[ID[f"<|{l}|>"]]))
    plain = [START, ID["<|en|>"], ID["<|transcribe|>"], NO_TIMES]
    timed = [START, ID["<|de|>"], ID["<|translate|>"]]
    tokens, gap, rows = greedy(model, encoded, plain, processors(model, len(plain), False))
    timed_tokens, timed_gap, _ = greedy(model, encoded, timed, processors(model, len(timed), True))
    some = [0, 1, 20, STEPS - 1]
    golden = dict(bands_f32_base64=b64(features[0].numpy()), encoded_f32_base64=b64(encoded[0].numpy()),
                  language=heard, no_speech_prob=float(torch.softmax(first, -1)[ID["<|nospeech|>"]]),
                  prompt=plain, tokens=tokens, steps=some, logits_f32_base64=b64(rows[some]),
                  timed_prompt=timed, timed_tokens=timed_tokens)
    return golden, min(gap, timed_gap), len(set(tokens)), timed_tokens


class Decoder:
    """The part of a tokenizer that makes words."""
    eos_token_id = END

    def __init__(self):
        self.tokenizer = tf.AutoTokenizer.from_pretrained(ROOT)

    def decode(self, tokens, decode_with_timestamps=True):
        return self.tokenizer.decode(tokens)


def words_of(tokens, times, language):
    """Returns words as transformers' pipeline does: a token begins where the one before it ends."""
    text = [i for i, token in enumerate(tokens) if token < END]
    spans = [(times[i - 1] if i else 0.0, times[i]) for i in text]
    words = _collate_word_timestamps(Decoder(), [tokens[i] for i in text], spans, language, False)
    return [dict(word=w["text"], start=round(w["timestamp"][0], 2), end=round(w["timestamp"][1], 2)) for w in words]


def segment_golden(segment):
    tokens = [int(t) for t in segment["tokens"]]
    times = [round(float(t), 2) for t in segment["token_timestamps"]]
    return dict(start=round(float(segment["start"]), 2), end=round(float(segment["end"]), 2), tokens=tokens, times=times,
                words=words_of(tokens, times, "english"), characters=words_of(tokens, times, "japanese"))


@torch.no_grad()
def alignments(model, window, samples):
    """Returns where each of the timed tokens begins, among so many rows."""
    extractor = tf.WhisperFeatureExtractor(feature_size=8, chunk_length=1)
    features = extractor(samples, sampling_rate=RATE, return_tensors="pt")["input_features"]
    prompt = window["timed_prompt"]
    tokens = prompt + window["timed_tokens"]
    made = model(features, decoder_input_ids=torch.tensor([tokens]), output_attentions=True)
    outputs = tf.generation.GenerateEncoderDecoderOutput(cross_attentions=[made.cross_attentions], sequences=torch.tensor([tokens]))
    cuts = []
    for rows in (50, 37, 3):
        times = model._extract_token_timestamps(outputs, ALIGNMENT_HEADS, num_frames=2 * rows, num_input_ids=len(prompt))
        cuts.append(dict(rows=rows, first_rows=[round(float(t) / 0.02) for t in times[0, len(prompt):-1]]))
    return cuts


def whole_golden(model, samples):
    """Returns transformers' own transcription, window by window."""
    extractor = tf.WhisperFeatureExtractor(feature_size=8, chunk_length=1)
    inputs = extractor(samples, sampling_rate=RATE, return_tensors="pt", truncation=False, padding="longest",
                       return_attention_mask=True)
    made = model.generate(**inputs, language="en", task="transcribe", return_timestamps=True, return_segments=True,
                          return_token_timestamps=True, num_beams=1, do_sample=False, max_new_tokens=100)
    return made["segments"][0]


def main():
    shutil.rmtree(ROOT, ignore_errors=True)
    ROOT.mkdir(parents=True)
    samples = recording()
    write_wav(ROOT / "recording.wav", samples)
    signal = samples.astype(np.float32) / 32768
    parts = [signal[:RATE], signal[RATE:2 * RATE]]
    for seed in range(400):
        model = make_model(seed)
        windows = [window_golden(model, part) for part in parts]
        gap = min(w[1] for w in windows)
        segments = whole_golden(model, signal)
        enough = all(sum(t >= FIRST_TIME for t in w[3]) >= 6 and len(set(w[3])) >= 12 for w in windows)
        if gap >= MIN_GAP and min(w[2] for w in windows) >= 8 and enough and len(segments) >= 6:
            break
    model.save_pretrained(ROOT)
    write_tokenizer()
    segments = [segment_golden(segment) for segment in segments]
    file = tf.WhisperFeatureExtractor(feature_size=8, chunk_length=1)
    file.save_pretrained(ROOT)
    golden = dict(mel=[mel_golden(signal, bands) for bands in (80, 128)], min_gap=round(gap, 6),
                  windows=[w[0] for w in windows], segments=segments,
                  alignments=[alignments(model, w[0], part) for w, part in zip(windows, parts)],
                  transformers=tf.__version__, torch=torch.__version__.split("+")[0])
    (ROOT / "golden.json").write_text(json.dumps(golden) + "\n")
    print(f"seed {seed} gap {gap:.4f}, {len(segments)} segments:",
          sum(f.stat().st_size for f in ROOT.iterdir()) // 1024, "KiB")


if __name__ == "__main__":
    main()
