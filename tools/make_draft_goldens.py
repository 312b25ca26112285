#!/usr/bin/env python3
"""Tiny random models that draft from hidden states, and what they draft.

    build/oracle/bin/python tools/make_draft_goldens.py [NAME ...]

Writes tests/goldens/drafting/NAME/: the drafter's files as checkpoints have them, and golden.json: the served model (a
folder beside models/, or this one), a text, and after each of its last tokens the greedy drafts behind it. Hidden states
are transformers' (float32, eager attention); the drafters are written out here from their papers and from how vLLM
reads their files. Needs the oracle environment (./dev setup --oracles).
"""

import json
import math
import pathlib
import shutil
import sys

import safetensors.torch
import torch
import transformers as tf

import make_model_goldens

GOLDENS = pathlib.Path(__file__).resolve().parent.parent / "tests" / "goldens"
ROOT = GOLDENS / "drafting"
PROMPT, STEPS, DRAFTS = 20, 6, 3
MIN_GAP = 2e-3

torch.set_num_threads(1)


class Weights:
    """Random tensors that are exact in the type in which they are stored."""

    def __init__(self, seed, dtype=torch.bfloat16):
        self.generator = torch.Generator().manual_seed(seed)
        self.dtype = dtype
        self.stored = {}

    def __call__(self, name, *shape, kind="matrix"):
        noise = torch.randn(shape, generator=self.generator)
        value = {"matrix": lambda: 1.3 * noise / math.sqrt(shape[-1]), "norm": lambda: 1 + 0.3 * noise,
                 "bias": lambda: 0.3 * noise, "head": lambda: 0.9 * noise}[kind]()
        value = value.to(self.dtype)
        self.stored[name] = value
        return value.float()


def rms(x, weight, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def rotate(x, theta=10000.0):
    """Rotates x [T, heads, D] by positions 0, 1, …, with halves as pairs."""
    half = x.shape[-1] // 2
    angles = torch.outer(torch.arange(x.shape[0]).float(), theta ** (-torch.arange(half).float() / half))
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class LlamaLayer:
    def __init__(self, weights, prefix, config, inputs):
        self.config = config
        size, heads, kv = config.hidden_size, config.num_attention_heads, config.num_key_value_heads
        dim, ffn = size // heads, config.intermediate_size
        self.q = weights(prefix + "self_attn.q_proj.weight", heads * dim, inputs)
        self.k = weights(prefix + "self_attn.k_proj.weight", kv * dim, inputs)
        self.v = weights(prefix + "self_attn.v_proj.weight", kv * dim, inputs)
        self.o = weights(prefix + "self_attn.o_proj.weight", size, heads * dim)
        self.norm = weights(prefix + "post_attention_layernorm.weight", size, kind="norm")
        self.gate = weights(prefix + "mlp.gate_proj.weight", ffn, size)
        self.up = weights(prefix + "mlp.up_proj.weight", ffn, size)
        self.down = weights(prefix + "mlp.down_proj.weight", size, ffn)

    def __call__(self, x, residual):
        config, length = self.config, x.shape[0]
        heads, kv = config.num_attention_heads, config.num_key_value_heads
        q = rotate((x @ self.q.T).view(length, heads, -1))
        k = rotate((x @ self.k.T).view(length, kv, -1)).repeat_interleave(heads // kv, 1)
        v = (x @ self.v.T).view(length, kv, -1).repeat_interleave(heads // kv, 1)
        scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf"))
        heads_out = torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).reshape(length, -1)
        y = residual + heads_out @ self.o.T
        z = rms(y, self.norm, config.rms_norm_eps)
        return y + (torch.nn.functional.silu(z @ self.gate.T) * (z @ self.up.T)) @ self.down.T


class Medusa:
    """heads: (blocks, num_heads, has_bias, names of FasterDecoding or of vLLM, known tokens)."""

    def __init__(self, target, weights, blocks, num_heads, has_bias, original, known):
        size, vocab = target.config.hidden_size, target.config.vocab_size
        block_name = "{}.{}.linear." if original else "blocks.{}.layers.{}."
        self.heads, self.config, self.map = [], {}, torch.arange(vocab)
        if known:
            self.map = torch.randperm(vocab, generator=weights.generator)[:known]
            weights.stored["token_map"] = self.map
        for k in range(num_heads):
            linears = []
            for i in range(blocks):
                name = block_name.format(k, i)
                bias = weights(name + "bias", size, kind="bias") if has_bias else torch.zeros(size)
                linears.append((weights(name + "weight", size, size), bias))
            name = f"{k}.{blocks}.weight" if original else f"lm_heads.{k}.weight"
            self.heads.append((linears, weights(name, len(self.map), size, kind="head")))
        self.file = "medusa_lm_head.safetensors" if original else "model.safetensors"
        self.config = (dict(medusa_num_heads=num_heads, medusa_num_layers=blocks) if original else
                       dict(model_type="medusa", architectures=["MedusaModel"], num_heads=num_heads,
                            num_hidden_layers=blocks, hidden_size=size, vocab_size=vocab,
                            truncated_vocab_size=len(self.map)))

    def drafts(self, target, tokens, states, count):
        rows, ids = [], []
        for linears, head in self.heads[:count]:
            x = states["final"][len(tokens) - 2]
            for weight, bias in linears:
                x = x + torch.nn.functional.silu(weight @ x + bias)
            rows.append(head @ x)
            ids.append(int(self.map[rows[-1].argmax()]))
        return ids, rows


class Chain:
    """A decoder that drafts one token after the other, each from the state of the token before."""

    def drafts(self, target, tokens, states, count):
        text, own, rows = list(tokens), [], []
        num_theirs = len(tokens) - 1
        for _ in range(count):
            embedded = self.embedding[torch.tensor(text[1:])]
            state, logits = self.step(embedded, {k: v[:num_theirs] for k, v in states.items()}, own)
            own.append(state)
            rows.append(logits)
            text.append(int(self.map[logits.argmax()]))
        return text[len(tokens):], rows


class Eagle(Chain):
    def __init__(self, target, weights, has_bias, prefix):
        config = target.config
        size = config.hidden_size
        self.map = torch.arange(config.vocab_size)
        self.embedding = target.get_input_embeddings().weight.detach()
        self.head = target.lm_head.weight.detach()
        self.fc = weights(prefix + "fc.weight", size, 2 * size)
        self.bias = weights(prefix + "fc.bias", size, kind="bias") if has_bias else torch.zeros(size)
        self.layer = LlamaLayer(weights, prefix + "layers.0.", config, size)
        self.config = dict(llama_config(config), architectures=["LlamaForCausalLM"])
        self.file = "model.safetensors"

    def step(self, embedded, states, own):
        h = torch.cat([states["final"], *[s[None] for s in own]])
        x = torch.cat([embedded, h], -1) @ self.fc.T + self.bias
        y = self.layer(x, x)[-1]
        return y, self.head @ y


class Eagle3(Chain):
    def __init__(self, target, weights, layers, known, speculators, streams_normed, feeds_normed, own_embedding):
        config = target.config
        size, vocab, eps = config.hidden_size, config.vocab_size, config.rms_norm_eps
        self.layers, self.streams_normed, self.feeds_normed, self.eps = layers, streams_normed, feeds_normed, eps
        prefix = "layers.0." if speculators else "midlayer."
        self.embedding = target.get_input_embeddings().weight.detach()
        if own_embedding:
            self.embedding = weights("embed_tokens.weight", vocab, size, kind="head")
        self.fc = weights("fc.weight", size, 3 * size)
        self.embedding_norm = weights(prefix + "input_layernorm.weight", size, kind="norm")
        self.hidden_norm = weights(prefix + "hidden_norm.weight", size, kind="norm")
        self.layer = LlamaLayer(weights, prefix, config, 2 * size)
        self.norm = weights("norm.weight", size, kind="norm")
        self.head = weights("lm_head.weight", known or vocab, size, kind="head")
        self.map = torch.arange(vocab)
        if known:
            self.map = torch.randperm(vocab, generator=weights.generator)[:known].sort().values
            weights.stored["d2t"] = self.map - torch.arange(known)
            weights.stored["t2d"] = torch.isin(torch.arange(vocab), self.map)
        decoder = llama_config(config)
        own = dict(norm_before_residual=streams_normed, draft_vocab_size=known or vocab)
        if feeds_normed:
            own["norm_output"] = True
        if layers != (2, 1, 0):
            own["eagle_aux_hidden_state_layer_ids"] = list(layers)
        proposal = dict(proposal_type="greedy", speculative_tokens=3, verifier_accept_k=1, accept_tolerance=0.0)
        self.config = dict(decoder, architectures=["LlamaForCausalLMEagle3"], **own)
        if speculators:
            self.config = dict(speculators_model_type="eagle3", speculators_version="0.9.0",
                               architectures=["Eagle3Speculator"], transformer_layer_config=decoder,
                               target_hidden_size=size, speculators_config=dict(
                                   algorithm="eagle3", default_proposal_method="greedy", proposal_methods=[proposal],
                                   verifier=dict(name_or_path="llama", architectures=["LlamaForCausalLM"])), **own)
        self.file = "model.safetensors"

    def step(self, embedded, states, own):
        g = torch.cat([states[layer] for layer in self.layers], -1) @ self.fc.T
        g = torch.cat([g, *[s[None] for s in own]])
        normed = rms(g, self.hidden_norm, self.eps)
        x = torch.cat([rms(embedded, self.embedding_norm, self.eps), normed], -1)
        y = self.layer(x, normed if self.streams_normed else g)[-1]
        z = rms(y, self.norm, self.eps)
        return (z if self.feeds_normed else y), self.head @ z


class Mtp(Chain):
    """One more layer of the served model's own kind. `extended` is the model with it."""

    def __init__(self, target, extended, weights, is_qwen):
        config = target.config
        size, self.is_qwen, self.eps = config.hidden_size, is_qwen, config.rms_norm_eps
        self.map = torch.arange(config.vocab_size)
        self.embedding = target.get_input_embeddings().weight.detach()
        self.head = target.lm_head.weight.detach()
        index = config.num_hidden_layers
        self.layer, self.rotary = extended.model.layers[index], extended.model.rotary_emb
        prefix = "mtp." if is_qwen else f"model.layers.{index}."
        names = (("pre_fc_norm_embedding", "pre_fc_norm_hidden", "fc", "norm") if is_qwen else
                 ("enorm", "hnorm", "eh_proj", "shared_head.norm"))
        kind = "bias" if is_qwen else "norm"  # the weights of its norms are stored as w for 1 + w
        one = 1.0 if is_qwen else 0.0
        self.embedding_norm = one + weights(f"{prefix}{names[0]}.weight", size, kind=kind)
        self.hidden_norm = one + weights(f"{prefix}{names[1]}.weight", size, kind=kind)
        self.fc = weights(f"{prefix}{names[2]}.weight", size, 2 * size)
        self.norm = one + weights(f"{prefix}{names[3]}.weight", size, kind=kind)

    def step(self, embedded, states, own):
        h = torch.cat([states["final"], *[s[None] for s in own]])
        if not self.is_qwen:
            embedded = embedded.clone()
            embedded[0] = 0
        x = torch.cat([rms(embedded, self.embedding_norm, self.eps), rms(h, self.hidden_norm, self.eps)], -1)
        x = (x @ self.fc.T)[None]
        positions = torch.arange(x.shape[1])[None]
        mask = torch.full((x.shape[1], x.shape[1]), float("-inf")).triu(1)[None, None]
        y = self.layer(x, position_embeddings=self.rotary(x, positions), attention_mask=mask, position_ids=positions)
        y = (y[0] if isinstance(y, tuple) else y)[0, -1]
        z = rms(y, self.norm, self.eps)
        return (z if self.is_qwen else y), self.head @ z


def llama_config(config):
    keys = ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "rms_norm_eps",
            "max_position_embeddings", "vocab_size")
    return dict({key: getattr(config, key) for key in keys}, model_type="llama", num_hidden_layers=1,
                rope_theta=10000.0, hidden_act="silu")


@torch.no_grad()
def served(model, prompt):
    """Returns the greedy text and its hidden states."""
    tokens = list(prompt)
    for _ in range(STEPS):
        logits = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -1]
        tokens.append(int(logits.argmax()))
    hidden = model(input_ids=torch.tensor([tokens]), output_hidden_states=True, use_cache=False).hidden_states
    states = {layer: hidden[layer][0] for layer in range(len(hidden) - 1)}
    return tokens, dict(states, final=hidden[-1][0])


def load(path):
    return tf.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()


LAYER_LISTS = ("layer_types", "mlp_layer_types", "indexer_types")


def extended(name, seed, folder):
    """Returns the named model with one layer more than in its configuration, whose tensors are those of MTP."""
    config = tf.AutoConfig.from_pretrained(GOLDENS / "models" / name)
    num_layers = config.num_hidden_layers
    config.num_hidden_layers += 1
    for key in LAYER_LISTS:
        if getattr(config, key, None):
            kinds = getattr(config, key)
            more = {"layer_types": "full_attention", "indexer_types": "full"}.get(key, kinds[-1])
            setattr(config, key, [*kinds, kinds[-1] if kinds[-1] == "indexed_attention" else more])
    config._attn_implementation = "eager"
    model = tf.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    make_model_goldens.randomize(model, seed, torch.bfloat16)
    model.to(torch.bfloat16).save_pretrained(folder)
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    return load(folder), tensors, num_layers


@torch.no_grad()
def make_mtp(name, target_name, seed):
    folder = ROOT / name
    whole, tensors, num_layers = extended(target_name, seed, folder)
    is_qwen = target_name.startswith("qwen")
    said = json.loads((folder / "config.json").read_text())
    said["num_hidden_layers"] = num_layers
    said.pop("num_mtp_layers", None)
    for key in LAYER_LISTS:
        if key in said:
            said[key] = said[key][:num_layers]
    said["mtp_num_hidden_layers" if is_qwen else "num_nextn_predict_layers"] = 1
    (folder / "config.json").write_text(json.dumps(said, indent=2) + "\n")
    old = f"model.layers.{num_layers}."
    trunk = {k: v for k, v in tensors.items() if not k.startswith(old)}
    safetensors.torch.save_file(trunk, folder / "model.safetensors", {"format": "pt"})
    target = load(folder)
    weights = Weights(seed + 1)
    drafter = Mtp(target, whole, weights, is_qwen)
    layer = {("mtp.layers.0." + k.removeprefix(old)) if is_qwen else k: v for k, v in tensors.items() if k.startswith(old)}
    safetensors.torch.save_file({**trunk, **layer, **weights.stored}, folder / "model.safetensors", {"format": "pt"})
    for spare in folder.glob("generation_config.json"):
        spare.unlink()
    return target, drafter


VARIANTS = {
    "medusa_original": lambda t, w: Medusa(t, w, 1, 4, True, True, None),
    "medusa_vllm": lambda t, w: Medusa(t, w, 2, 3, False, False, 120),
    "eagle": lambda t, w: Eagle(t, w, True, ""),
    "eagle_prefix": lambda t, w: Eagle(t, w, False, "model."),
    "eagle3_original": lambda t, w: Eagle3(t, w, (2, 1, 0), 96, False, False, False, False),
    "eagle3_speculators": lambda t, w: Eagle3(t, w, (1, 2, 0), None, True, True, True, True),
}
MTP = {"mtp_deepseek": "deepseek_v3", "mtp_glm": "glm4_moe", "mtp_qwen": "qwen3_next", "mtp_sparse": "glm_moe_dsa"}


@torch.no_grad()
def record(name, target, target_name, drafter, seed):
    prompt = torch.randint(3, target.config.vocab_size, (PROMPT,), generator=torch.Generator().manual_seed(seed)).tolist()
    tokens, states = served(target, prompt)
    steps, gap = [], math.inf
    for length in range(PROMPT + 1, len(tokens) + 1):
        ids, rows = drafter.drafts(target, tokens[:length], states, DRAFTS)
        for row in rows:
            best = row.topk(2).values
            gap = min(gap, float(best[0] - best[1]))
        steps.append(dict(num_tokens=length, drafts=ids))
    return dict(target=target_name, token_ids=tokens, num_prompt_tokens=PROMPT, steps=steps, min_gap=gap)


def make(name):
    for seed in range(1, 50):
        shutil.rmtree(ROOT / name, ignore_errors=True)
        (ROOT / name).mkdir(parents=True)
        if name in MTP:
            target, drafter = make_mtp(name, MTP[name], seed)
            golden = record(name, target, f"drafting/{name}", drafter, seed)
        else:
            target, weights = load(GOLDENS / "models" / "llama"), Weights(seed)
            drafter = VARIANTS[name](target, weights)
            safetensors.torch.save_file(weights.stored, ROOT / name / drafter.file, {"format": "pt"})
            (ROOT / name / "config.json").write_text(json.dumps(drafter.config, indent=2) + "\n")
            golden = record(name, target, "models/llama", drafter, seed)
        if golden["min_gap"] >= MIN_GAP:
            break
    else:
        raise SystemExit(f"{name}: no seed leaves a gap of {MIN_GAP}")
    (ROOT / name / "golden.json").write_text(json.dumps(golden) + "\n")
    print(f"{name}: seed {seed}, min gap {golden['min_gap']:.3g}")


def main():
    for name in sys.argv[1:] or [*VARIANTS, *MTP]:
        make(name)


if __name__ == "__main__":
    main()
