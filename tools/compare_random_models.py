#!/usr/bin/env python3
"""Random legal models, tokenizers and chats, computed by transformers and by a running `quire serve`, side by side.

    build/oracle/bin/python tools/compare_random_models.py --quire build/release/quire [--rounds 100] [--seed 1]
        [--what models,quantized,gguf,tokenizers,chats] [--families llama,qwen3] [--keep DIR]

Prints each mismatch with its seed; `--rounds 1 --seed THAT` repeats it. Exit code 1 when anything differed.
Models are compared by the log-probability of every prompt token (teacher forcing, float32) and by greedy tokens up to
near-ties, quantized ones with the weights that the checkpoint stands for; tokenizers by ids and text; chats by the ids of the rendered prompt. Needs the oracle environment
(./dev setup --oracles).
"""

import argparse
import contextlib
import json
import math
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

import tokenizers as tk
import torch
import transformers as tf

import random_quantized
from make_model_goldens import calm, randomize
from make_quant_goldens import round_inputs
from state_models import ZAMBA_QUIET

LOGPROB_TOLERANCE = 2e-3
INT8_TOLERANCE = 0.08  # share of the logits' deviation: an activation near a tie between two codes changes all that follow
NEAR_TIE = 5e-3
ACTIVATIONS = ["silu", "gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "quick_gelu", "relu", "relu2", "tanh"]
TEXT = (pathlib.Path(__file__).resolve().parent.parent / "docs" / "architecture.md").read_text()
SNIPPETS = ["Hello world", " two  spaces", "naïve café", "日本語のテキスト", "emoji 😀👍🏽", "tab\tnew\nline", "1234567890",
            "don't we'll", "<s>special</s>", "ﬁne ＡＢ½", "a" * 70, "", " ", "x\u00a0y", "Ω≈ç√", "\u200bzero", "e\u0301",
            "##hash ▁low", "МОСКВА", "עברית", "\r\n\r\n", "foo_bar(baz)=>{}", "http://a.b/c?d=e&f"]

torch.set_num_threads(1)


# ---- configurations -------------------------------------------------------------------------------------------------

def rope_parameters(r, head_dim, max_positions, kinds):
    kind = r.choice(kinds)
    p = {"rope_type": kind, "rope_theta": r.choice([10000.0, 500000.0, 1e6, 777.0])}
    if kind in ("linear", "dynamic", "yarn", "llama3"):
        p["factor"] = r.choice([1.5, 2.0, 4.0, 8.0])
    if kind == "yarn":
        p["original_max_position_embeddings"] = r.choice([16, 32, 64])
        if r.random() < 0.5:
            p.update(beta_fast=r.choice([16.0, 32.0]), beta_slow=r.choice([1.0, 2.0]))
        if r.random() < 0.3:
            p["attention_factor"] = r.choice([0.8, 1.2])
        elif r.random() < 0.3:
            p.update(mscale=0.7, mscale_all_dim=0.9)
        if r.random() < 0.3:
            p["truncate"] = False
    if kind == "llama3":
        p.update(low_freq_factor=1.0, high_freq_factor=r.choice([2.0, 4.0]), original_max_position_embeddings=32)
    if kind == "longrope":
        p["short_factor"] = [round(1 + r.random(), 3) for _ in range(head_dim // 2)]
        p["long_factor"] = [round(1 + 4 * r.random(), 3) for _ in range(head_dim // 2)]
    return p


def sizes(r):
    kv_heads = r.choice([1, 2, 3])
    heads = kv_heads * r.choice([1, 2, 4])
    head_dim = r.choice([4, 6, 8, 10, 16, 20, 32])
    return dict(vocab_size=r.randint(40, 300), hidden_size=heads * head_dim, intermediate_size=r.randint(5, 90),
                num_hidden_layers=r.randint(1, 4), num_attention_heads=heads, num_key_value_heads=kv_heads,
                max_position_embeddings=256, tie_word_embeddings=r.random() < 0.5,
                rms_norm_eps=r.choice([1e-6, 1e-5, 1e-3]), bos_token_id=1, eos_token_id=2, pad_token_id=0), head_dim


def windows(r, layers):
    if r.random() < 0.4:
        return None
    return [r.choice(["full_attention", "sliding_attention"]) for _ in range(layers)]


PLAIN = ["default", "linear", "yarn", "llama3"]  # dynamic scaling depends on the length of the call: docs/decisions/003


def llama(r):
    base, dim = sizes(r)
    return tf.LlamaConfig(**base, head_dim=r.choice([dim, 12, 24]), hidden_act=r.choice(ACTIVATIONS),
                          attention_bias=r.random() < 0.3, mlp_bias=r.random() < 0.3,
                          rope_parameters=rope_parameters(r, dim, 256, PLAIN))


def mistral(r):
    base, dim = sizes(r)
    return tf.MistralConfig(**base, head_dim=dim, hidden_act=r.choice(ACTIVATIONS),
                            sliding_window=r.choice([None, 3, 12, 40]),
                            rope_parameters=rope_parameters(r, dim, 256, PLAIN))


def qwen2(r):
    base, dim = sizes(r)
    slides = r.random() < 0.6
    return tf.Qwen2Config(**base, hidden_act=r.choice(ACTIVATIONS), use_sliding_window=slides,
                          sliding_window=r.choice([5, 17]), max_window_layers=r.randint(0, base["num_hidden_layers"]),
                          rope_parameters=rope_parameters(r, dim, 256, PLAIN))


def qwen3(r):
    base, dim = sizes(r)
    return tf.Qwen3Config(**base, head_dim=r.choice([dim, 14]), hidden_act=r.choice(ACTIVATIONS),
                          attention_bias=r.random() < 0.4, use_sliding_window=True, sliding_window=9,
                          layer_types=windows(r, base["num_hidden_layers"]),
                          rope_parameters=rope_parameters(r, dim, 256, PLAIN))


def phi3(r):
    base, dim = sizes(r)
    partial = r.choice([1.0, 1.0, 0.5, 0.75, 0.4])
    rotary = int(dim * partial)
    kinds = ["default", "longrope"] if rotary % 2 == 0 and rotary > 0 else ["default"]
    p = rope_parameters(r, rotary, 256, kinds)
    if partial != 1.0 and rotary > 0:
        p["partial_rotary_factor"] = partial
    more = dict(original_max_position_embeddings=r.choice([32, 128])) if p["rope_type"] == "longrope" else {}
    return tf.Phi3Config(**base, hidden_act=r.choice(ACTIVATIONS), sliding_window=r.choice([None, 7, 30]),
                         rope_parameters=p, **more)


def gemma2(r):
    base, dim = sizes(r)
    base["tie_word_embeddings"] = True
    return tf.Gemma2Config(**base, head_dim=dim, hidden_activation=r.choice(["gelu_pytorch_tanh", "gelu", "silu"]),
                           sliding_window=r.choice([4, 20]), query_pre_attn_scalar=r.choice([dim, 7, 64]),
                           attn_logit_softcapping=r.choice([None, 3.0, 50.0]), attention_bias=r.random() < 0.3,
                           final_logit_softcapping=r.choice([None, 5.0, 30.0]),
                           layer_types=windows(r, base["num_hidden_layers"]),
                           rope_parameters=rope_parameters(r, dim, 256, PLAIN))


def gemma3(r):
    base, dim = sizes(r)
    base["tie_word_embeddings"] = True
    full = rope_parameters(r, dim, 256, PLAIN)
    full.pop("truncate", None)  # transformers does not read it from the parameters of a layer type
    return tf.Gemma3TextConfig(**base, head_dim=dim, sliding_window=r.choice([4, 20]),
                               query_pre_attn_scalar=r.choice([dim, 9]), attention_bias=r.random() < 0.3,
                               final_logit_softcapping=r.choice([None, 6.0]),
                               layer_types=windows(r, base["num_hidden_layers"]),
                               rope_parameters=dict(full_attention=full,
                                                    sliding_attention=rope_parameters(r, dim, 256, ["default"])))


def gpt2(r):
    heads = r.choice([1, 2, 3, 4])
    return tf.GPT2Config(vocab_size=r.randint(40, 300), n_embd=heads * r.choice([4, 6, 8, 16]), n_layer=r.randint(1, 4),
                         n_head=heads, n_positions=256, n_inner=r.choice([None, 17, 64]),
                         activation_function=r.choice(ACTIVATIONS), scale_attn_weights=True,
                         scale_attn_by_inverse_layer_idx=r.random() < 0.3, layer_norm_epsilon=r.choice([1e-5, 1e-3]),
                         tie_word_embeddings=r.random() < 0.7, bos_token_id=1, eos_token_id=2)


def gemma3n(r):
    base, dim = sizes(r)
    layers = r.randint(2, 5)
    shared = r.randint(0, layers - 1)
    kinds = windows(r, layers) or ["full_attention"] * layers
    if not set(kinds[layers - shared:]) <= set(kinds[:layers - shared]):
        shared = 0
    streams = r.randint(1, 5)
    base.update(num_hidden_layers=layers, intermediate_size=[base["intermediate_size"] * r.choice([1, 2])
                                                            for _ in range(layers)])
    return tf.Gemma3nTextConfig(
        **base, head_dim=dim, sliding_window=r.choice([4, 20]), attention_bias=r.random() < 0.3, layer_types=kinds,
        hidden_activation=r.choice(["gelu_pytorch_tanh", "gelu", "silu"]), final_logit_softcapping=r.choice([6.0, 30.0]),
        hidden_size_per_layer_input=r.choice([3, 8, 32]), vocab_size_per_layer_input=r.randint(20, base["vocab_size"]),
        altup_num_inputs=streams, altup_active_idx=r.randrange(streams), altup_correct_scale=r.random() < 0.5,
        laurel_rank=r.choice([1, 5, 32]), num_kv_shared_layers=shared,
        activation_sparsity_pattern=r.choice([None, [r.choice([0.0, 0.3, 0.8, 0.95]) for _ in range(layers)]]))


def zamba2(r):
    base, _ = sizes(r)
    kinds = [r.choice(["hybrid", "linear_attention"]) for _ in range(r.randint(1, 6))]
    heads = base["num_attention_heads"] = r.choice([1, 2, 4])
    mamba_heads = r.choice([1, 2, 4])
    base.update(hidden_size=heads * mamba_heads * r.choice([2, 4, 8, 16]), num_hidden_layers=len(kinds),
                num_key_value_heads=heads)
    return tf.Zamba2Config(
        **base, layers_block_type=kinds, num_mem_blocks=r.randint(1, 3), adapter_rank=r.choice([1, 4, 32]),
        use_shared_attention_adapter=r.random() < 0.5, use_mem_rope=r.random() < 0.5, add_bias_linear=r.random() < 0.3,
        use_conv_bias=r.random() < 0.5, hidden_act=r.choice(["gelu", "silu"]), mamba_d_state=r.choice([4, 16, 20]),
        mamba_d_conv=r.choice([2, 4]), mamba_expand=r.choice([1, 2, 3]), mamba_ngroups=r.choice([1, mamba_heads]),
        n_mamba_heads=mamba_heads, chunk_size=16, time_step_min=r.choice([0.001, 0.2]),
        rope_parameters=dict(rope_type="default", rope_theta=r.choice([10000.0, 777.0])))


FAMILIES = dict(llama=llama, mistral=mistral, qwen2=qwen2, qwen3=qwen3, phi3=phi3, gemma2=gemma2, gemma3=gemma3,
                gemma3n=gemma3n, zamba2=zamba2, gpt2=gpt2)
FLOATS = ("gpt2", "gemma3n", "zamba2")  # never quantized here, because not all their widths can be whole groups


# ---- the server under test ------------------------------------------------------------------------------------------

class Refused(Exception):
    pass


@contextlib.contextmanager
def serve(quire, model, *flags):
    process = subprocess.Popen([quire, "serve", str(model), "--port", "0", "--threads", "1", "--kv-cache-memory",
                                "32MiB", *flags], stderr=subprocess.PIPE, text=True)
    try:
        lines = []
        for line in process.stderr:
            lines.append(line.strip())
            found = re.search(r"http://\S+:(\d+)", line)
            if found:
                break
        else:
            raise Refused(lines[-1] if lines else "no output")
        yield f"http://127.0.0.1:{found.group(1)}"
    finally:
        process.kill()
        process.stderr.close()
        process.wait()


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return {"error": error.read().decode()}


# ---- models ---------------------------------------------------------------------------------------------------------

def random_model(r, config, bits):
    """Returns a model with weights that are exact in `bits` bits."""
    config._attn_implementation = "eager"
    model = tf.AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32).eval()
    randomize(model, r.randint(0, 10**6), bits)
    if config.model_type == "zamba2":
        calm(model, dict(quiet=ZAMBA_QUIET), bits)
    return model


def check_model(r, options, model, path, name, relative_tolerance=0.0):
    """Compares the server's results for the checkpoint at `path` with those of `model`; returns None, or how they differ.

    relative_tolerance: a share of the standard deviation of the logits, used if that is greater than LOGPROB_TOLERANCE.
    """
    config = model.config
    prompt = [r.randrange(3, config.vocab_size) for _ in range(r.randint(2, 60))]
    max_len = 128
    with serve(options.quire, path, "--dtype", "float32", "--max-model-len", str(max_len)) as url:
        answer = post(url + "/v1/completions", dict(
            prompt=prompt, max_tokens=24, temperature=0, ignore_eos=True, prompt_logprobs=0, return_token_ids=True))
    if "error" in answer:
        return f"{name}: {answer['error']}"
    choice = answer["choices"][0]
    ids = prompt + choice["token_ids"]
    # LongRoPE chooses by the served length, transformers by that of the call, so transformers gets the same choice here.
    if getattr(config, "rope_parameters", None) and config.rope_parameters.get("rope_type") == "longrope":
        if (max_len > config.original_max_position_embeddings) != (len(ids) > config.original_max_position_embeddings):
            return None
    logits = model(torch.tensor([ids]), use_cache=False).logits[0].double()
    tolerance = max(LOGPROB_TOLERANCE, relative_tolerance * float(logits.std()))
    expected = torch.log_softmax(logits, -1)
    worst, where = 0.0, 0
    for i, entry in enumerate(choice["prompt_logprobs"]):
        if entry is None:
            continue
        error = abs(entry[str(prompt[i])]["logprob"] - float(expected[i - 1, prompt[i]]))
        if error > worst:
            worst, where = error, i
    if not worst <= tolerance:
        return f"{name}: logprob of prompt token {where} differs by {worst:.2e}; {config.to_json_string()}"
    for i in range(len(prompt), len(ids)):
        row = logits[i - 1]
        gap = float(row.max() - row[ids[i]])
        if gap > max(NEAR_TIE, tolerance):
            return f"{name}: greedy token {i} is {ids[i]}, expected {int(row.argmax())} (gap {gap:.2e})"
    return None


@torch.no_grad()
def compare_model(r, options, folder):
    name = r.choice(options.families)
    model = random_model(r, FAMILIES[name](r), torch.float32)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    return check_model(r, options, model, folder, name)


@contextlib.contextmanager
def whole_groups():
    """Returns configurations whose widths are multiples of a quantization group."""
    global sizes
    kept, sizes = sizes, random_quantized.sizes
    try:
        yield
    finally:
        sizes = kept


@torch.no_grad()
def compare_quantized(r, options, folder):
    name = r.choice([family for family in options.families if family not in FLOATS])
    with whole_groups():
        model = random_model(r, FAMILIES[name](r), torch.bfloat16)
        while not random_quantized.has_whole_groups(model):
            model = random_model(r, FAMILIES[name](r), torch.bfloat16)
    scheme = random_quantized.quantize(r, model, folder)
    if scheme.round_inputs:
        for module_name, module in model.named_modules():
            if isinstance(module, torch.nn.Linear) and module_name.split(".")[-1] not in ("lm_head", *scheme.skip):
                module.register_forward_pre_hook(round_inputs)
    problem = check_model(r, options, model, folder, f"{scheme.name} {name}",
                          INT8_TOLERANCE if scheme.round_inputs else 0.0)
    return problem and f"{problem} {json.dumps(scheme.config)}"


@torch.no_grad()
def compare_gguf(r, options, folder):
    name = r.choice([family for family in options.families if family in ("llama", "qwen2", "gemma2")])
    model = random_model(r, random_quantized.gguf_config(r, name), torch.bfloat16)
    return check_model(r, options, model, random_quantized.quantize_gguf(r, model, folder), f"gguf {name}")


# ---- tokenizers -----------------------------------------------------------------------------------------------------

def random_tokenizer(r):
    n, p, d = tk.normalizers, tk.pre_tokenizers, tk.decoders
    kind = r.choice(["bytes", "bpe", "unigram", "wordpiece"])
    special = ["<unk>", "<s>", "</s>"]
    steps = [s for s in (n.NFC(), n.NFKC(), n.Lowercase(), n.StripAccents(), n.Strip(), n.Replace("``", '"'), n.NFD())
             if r.random() < 0.2]
    if kind == "bytes":
        t = tk.Tokenizer(tk.models.BPE())
        space = r.random() < 0.4
        t.pre_tokenizer = r.choice([
            p.ByteLevel(add_prefix_space=space),
            p.Sequence([p.Digits(individual_digits=r.random() < 0.5), p.ByteLevel(add_prefix_space=space)]),
            p.Sequence([p.Split(tk.Regex(r"\p{N}{1,3}|\s+|[^\s\p{N}]+"), r.choice(["isolated", "removed"])),
                        p.ByteLevel(add_prefix_space=False, use_regex=False)])])
        t.decoder = d.ByteLevel()
        trainer = tk.trainers.BpeTrainer(vocab_size=r.randint(300, 600), special_tokens=special,
                                         initial_alphabet=p.ByteLevel.alphabet(), show_progress=False)
    elif kind == "bpe":
        t = tk.Tokenizer(tk.models.BPE(unk_token="<unk>", fuse_unk=r.random() < 0.5, byte_fallback=False))
        scheme = r.choice(["always", "first", "never"])
        t.pre_tokenizer = p.Metaspace(prepend_scheme=scheme, split=r.random() < 0.7)
        t.decoder = d.Metaspace(prepend_scheme=scheme)
        trainer = tk.trainers.BpeTrainer(vocab_size=r.randint(120, 400), special_tokens=special, show_progress=False)
    elif kind == "unigram":
        t = tk.Tokenizer(tk.models.Unigram())
        scheme = r.choice(["always", "first", "never"])
        t.pre_tokenizer = p.Metaspace(prepend_scheme=scheme)
        t.decoder = d.Metaspace(prepend_scheme=scheme)
        trainer = tk.trainers.UnigramTrainer(vocab_size=r.randint(320, 500), special_tokens=special,
                                             unk_token="<unk>", show_progress=False)
    else:
        t = tk.Tokenizer(tk.models.WordPiece(unk_token="<unk>"))
        t.pre_tokenizer = r.choice([p.BertPreTokenizer(), p.Whitespace(), p.WhitespaceSplit(),
                                    p.Sequence([p.WhitespaceSplit(), p.Punctuation()])])
        t.decoder = d.WordPiece(cleanup=r.random() < 0.5)
        trainer = tk.trainers.WordPieceTrainer(vocab_size=r.randint(150, 400), special_tokens=special,
                                               show_progress=False)
    if steps:
        t.normalizer = n.Sequence(steps)
    t.train_from_iterator([TEXT] + SNIPPETS, trainer)
    if r.random() < 0.5:
        t.post_processor = tk.processors.TemplateProcessing(
            single="<s> $A </s>" if r.random() < 0.5 else "<s> $A", special_tokens=[("<s>", 1), ("</s>", 2)])
    t.add_tokens([tk.AddedToken("<tool>", lstrip=r.random() < 0.5, rstrip=r.random() < 0.5,
                                normalized=r.random() < 0.5, single_word=r.random() < 0.2)])
    return t


def random_text(r):
    words = re.findall(r"\S+\s*", TEXT)
    parts = [r.choice(SNIPPETS) if r.random() < 0.5 else r.choice(words) for _ in range(r.randint(1, 8))]
    if r.random() < 0.3:
        parts.insert(r.randrange(len(parts) + 1), r.choice(["<tool>", " <tool> ", "<s>"]))
    return "".join(parts)


def tiny_model(folder, vocab_size):
    config = tf.LlamaConfig(vocab_size=vocab_size, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                            num_attention_heads=1, max_position_embeddings=4096)
    tf.LlamaForCausalLM(config).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)


def compare_tokenizer(r, options, folder):
    tokenizer = random_tokenizer(r)
    tiny_model(folder, tokenizer.get_vocab_size())
    tokenizer.save(str(folder / "tokenizer.json"))
    with serve(options.quire, folder) as url:
        for _ in range(40):
            text = random_text(r)
            special = r.random() < 0.5
            expected = tokenizer.encode(text, add_special_tokens=special).ids
            answer = post(url + "/tokenize", dict(prompt=text, add_special_tokens=special))
            if answer.get("tokens") != expected:
                return f"tokenizer: {text!r}: expected {expected}, got {answer}; {describe(tokenizer)}"
            decoded = tokenizer.decode(expected, skip_special_tokens=False)
            answer = post(url + "/detokenize", dict(tokens=expected))
            if answer.get("prompt") != decoded:
                return f"tokenizer: {expected}: expected {decoded!r}, got {answer}; {describe(tokenizer)}"
    return None


def describe(tokenizer):
    parts = json.loads(tokenizer.to_str())
    parts["model"] = parts["model"]["type"]
    return json.dumps(parts, ensure_ascii=False)


# ---- chats ----------------------------------------------------------------------------------------------------------

TEMPLATES = [
    "{% for m in messages %}{{ '<|' + m['role'] + '|>\\n' + m['content'] | trim + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\\n{% endif %}",
    "{%- if tools %}{{ tools | tojson(indent=2) }}\n{% endif -%}{%- for m in messages -%}\n"
    "[{{ loop.index0 }}/{{ loop.length }}] {{ m.role | upper }}: {{ m.content }}{% if not loop.last %};{% endif %}\n"
    "{%- endfor -%}{{ '' if not add_generation_prompt else '\n>' }}",
    "{% set ns = namespace(system='', n=0) %}{% for m in messages if m.role == 'system' %}{% set ns.system = ns.system"
    " ~ m.content %}{% endfor %}{{ bos_token }}{% for m in messages %}{% if m['role'] != 'system' %}{% set ns.n = ns.n"
    " + 1 %}{{ (ns.system ~ '\n\n' if ns.n == 1 and ns.system) ~ m.content.strip() }}{{ eos_token if m.role =="
    " 'assistant' }}{% endif %}{% endfor %}",
    "{% macro show(m) -%}<{{ m.role }}>{{ m.content | replace('<', '&lt;') }}</{{ m.role }}>{%- endmacro %}"
    "{% for m in messages %}{{ show(m) }}{% if m.tool_calls is defined %}{% for c in m.tool_calls %}"
    "{{ c.function.name }}({% for k, v in c.function.arguments.items() %}{{ k }}={{ v | tojson }}"
    "{{ ', ' if not loop.last }}{% endfor %}){% endfor %}{% endif %}{% endfor %}",
]


def random_chat(r):
    messages = [dict(role="system", content=random_text(r))] if r.random() < 0.4 else []
    for i in range(r.randint(1, 5)):
        message = dict(role="assistant" if i % 2 else "user", content=random_text(r))
        if i % 2 and r.random() < 0.4:
            arguments = {"city": random_text(r), "n": r.randint(-5, 5), "f": r.choice([0.5, 1e-7, 3.0]),
                         "list": [None, True, {"é": 1}]}
            message["tool_calls"] = [dict(type="function", function=dict(name="look", arguments=arguments))]
        messages.append(message)
    tools = None
    if r.random() < 0.4:
        tools = [dict(type="function", function=dict(name="look", description=random_text(r), parameters=dict(
            type="object", properties=dict(city=dict(type="string")))))]
    return messages, tools


def compare_chats(r, options, folder):
    backend = random_tokenizer(r)
    tokenizer = tf.PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", bos_token="<s>",
                                           eos_token="</s>")
    tokenizer.chat_template = r.choice(TEMPLATES)
    tiny_model(folder, len(tokenizer))
    tokenizer.save_pretrained(folder)
    reference = tf.AutoTokenizer.from_pretrained(folder)
    with serve(options.quire, folder) as url:
        for _ in range(15):
            messages, tools = random_chat(r)
            generate = r.random() < 0.5
            expected = reference.apply_chat_template(messages, tools=tools, add_generation_prompt=generate,
                                                     tokenize=False)
            ids = reference.encode(expected, add_special_tokens=False)
            body = dict(messages=messages, add_generation_prompt=generate)
            answer = post(url + "/tokenize", dict(body, tools=tools) if tools else body)
            if answer.get("tokens") != ids:
                return f"chat: {json.dumps(messages)}: expected {ids} ({expected!r}), got {answer}"
    return None


# ---------------------------------------------------------------------------------------------------------------------

COMPARISONS = dict(models=compare_model, quantized=compare_quantized, gguf=compare_gguf,
                   tokenizers=compare_tokenizer, chats=compare_chats)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quire", required=True)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--what", type=lambda s: s.split(","), default=list(COMPARISONS))
    parser.add_argument("--families", type=lambda s: s.split(","), default=list(FAMILIES))
    parser.add_argument("--keep", type=pathlib.Path, help="where the folders of mismatches go")
    options = parser.parse_args()
    tf.logging.set_verbosity_error()
    tf.logging.disable_progress_bar()
    counts = dict(same=0, refused=0, different=0)
    for seed in range(options.seed, options.seed + options.rounds):
        r = random.Random(seed)
        what = r.choice(options.what)
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            try:
                problem = COMPARISONS[what](r, options, folder)
            except Refused as refusal:
                counts["refused"] += 1
                print(f"seed {seed} {what}: refused: {refusal}", flush=True)
                continue
            counts["different" if problem else "same"] += 1
            if problem:
                print(f"seed {seed} {problem}", flush=True)
                if options.keep:
                    shutil.copytree(folder, options.keep / str(seed), dirs_exist_ok=True)
    print(", ".join(f"{n} {name}" for name, n in counts.items()))
    return 1 if counts["different"] or counts["refused"] else 0


if __name__ == "__main__":
    sys.exit(main())
