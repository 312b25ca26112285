#!/usr/bin/env python3
"""What transformers' beam search finds with the tiny models of tests/goldens/models.

Writes tests/goldens/beams/<name>.json: for each number of beams, early_stopping and length_penalty, the beams best
first. The EOS token is one that the model likes, so that some beams end with it and some do not. A case is kept only
where float32 and float64 agree, so that equal beams are no luck. Needs transformers and torch
(tools/requirements-oracles.txt).

  tools/make_beam_goldens.py [NAME ...]
"""

import collections
import json
import pathlib
import sys

import torch
import transformers as tf

GOLDENS = pathlib.Path(__file__).resolve().parent.parent / "tests" / "goldens"
NAMES = ("llama", "gemma3", "gpt2")
MAX_TOKENS = 12
PROMPT_TOKENS = 21
PENALTIES = (-1.0, 0.0, 1.0, 2.0)
STOPPING = (True, False, "never")


def beams(model, prompt, num_beams, eos, **rule):
    with torch.no_grad():
        found = model.generate(torch.tensor([prompt]), num_beams=num_beams, num_return_sequences=num_beams,
                               max_new_tokens=MAX_TOKENS, do_sample=False, eos_token_id=eos, pad_token_id=0,
                               attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                               return_dict_in_generate=True, **rule)
    texts = []
    for ids in found.sequences[:, len(prompt):].tolist():
        texts.append(ids[:ids.index(eos) + 1] if eos in ids else ids)
    return texts


def liked_token(model, prompt):
    """Returns the most frequent token of the beams, apart from their beginnings and ends."""
    texts = beams(model, prompt, 6, -1, early_stopping=False, length_penalty=1.0)
    count = collections.Counter(token for text in texts for token in set(text[3:-2]))
    return next(token for token, _ in count.most_common() if token != 0)


def make(name):
    folder = GOLDENS / "models" / name
    golden = json.loads((folder / "golden.json").read_text())
    prompt = golden["prompt"][:PROMPT_TOKENS]
    single = tf.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    double = tf.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
    for model in (single, double):  # so that only the arguments below count
        model.generation_config = tf.GenerationConfig(bos_token_id=1)
    eos = liked_token(single, prompt)
    cases, dropped = [], 0
    for num_beams in range(2, 9):
        for early_stopping in STOPPING:
            for length_penalty in PENALTIES:
                rule = dict(early_stopping=early_stopping, length_penalty=length_penalty)
                texts = beams(single, prompt, num_beams, eos, **rule)
                if texts != beams(double, prompt, num_beams, eos, **rule):
                    dropped += 1
                    continue
                cases.append(dict(num_beams=num_beams, **rule, beams=texts))
    stopped = sum(text[-1] == eos for case in cases for text in case["beams"])
    total = sum(case["num_beams"] for case in cases)
    print(f"{name}: {len(cases)} cases, {dropped} dropped, {stopped} of {total} beams end with EOS")
    out = GOLDENS / "beams" / f"{name}.json"
    out.parent.mkdir(exist_ok=True)
    head = json.dumps(dict(prompt=prompt, eos_token_id=eos, max_tokens=MAX_TOKENS))[:-1]
    lines = ",\n".join(json.dumps(case) for case in cases)
    out.write_text(f'{head}, "cases": [\n{lines}\n]}}\n')


for wanted in sys.argv[1:] or NAMES:
    make(wanted)
