#!/usr/bin/env python3
"""Trains the built-in model on text that it generates itself. CPU, one thread, resumable.

  build/oracle/bin/python tools/train_builtin_model/train.py --out build/train --steps 3000

Every step's text depends only on (seed, step), so a run can be stopped and resumed at any step.
Matrices are updated by Muon (orthogonalized momentum), everything else by AdamW; the rate is
constant and falls linearly to zero over the last part of the run.
"""

import argparse
import pathlib
import time

import torch
from tokenizers import Tokenizer

import conversations
import tasks
import tokenization
from model import Config, Llama


def get_tokenizer(path, seed):
    if not path.exists():
        d = tasks.Draw(f"{seed}:tokenizer")
        texts = ["".join(t for t, _ in conversations.draw_parts(d)) for _ in range(12000)]
        tokenization.train_tokenizer(texts).save(str(path))
    return Tokenizer.from_file(str(path))


def batch(tokenizer, seed, step, tokens):
    """Documents of one step, grouped by length into micro-batches that need little padding."""
    d = tasks.Draw(f"{seed}:{step}")
    documents, total = [], 0
    while total < tokens:
        ids, weights = conversations.encode(tokenizer, conversations.draw_parts(d))
        ids, weights = ids[:1536], weights[:1536]
        documents.append((ids, weights))
        total += len(ids)
    documents.sort(key=lambda doc: len(doc[0]))
    group, groups = [], []
    for doc in documents:
        if group and (
            len(doc[0]) > 1.15 * len(group[0][0]) + 6 or (len(group) + 1) * len(doc[0]) > 4096
        ):
            groups.append(group)
            group = []
        group.append(doc)
    return [pad(g) for g in groups + [group]], total


def pad(group):
    longest = max(len(ids) for ids, _ in group)
    ids = torch.ones(len(group), longest, dtype=torch.long)
    weights = torch.zeros(len(group), longest)
    for i, (tokens, w) in enumerate(group):
        ids[i, : len(tokens)] = torch.tensor(tokens)
        weights[i, : len(w)] = torch.tensor(w, dtype=torch.float32)
    return ids[:, :-1], ids[:, 1:], weights[:, 1:]


def orthogonalize(m):
    """Newton-Schulz iteration in bfloat16: pushes all singular values of each [n, r, c] matrix near 1."""
    x = m.to(torch.bfloat16)
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for a, b, c in (
        (4.0848, -6.8946, 2.9270),
        (3.9505, -6.3029, 2.6377),
        (3.7418, -5.5913, 2.3037),
        (2.8769, -3.1427, 1.2046),
        (2.8366, -3.0525, 1.2012),
    ):
        s = x @ x.mT
        x = a * x + (b * s + c * s @ s) @ x
    return (x.mT if tall else x).float()


class Optimizer:
    """Muon for the layers' matrices, AdamW for the embedding and the norms."""

    def __init__(self, model, muon_rate, adam_rate):
        self.muon_rate, self.adam_rate = muon_rate, adam_rate
        self.matrices = {}
        for name, p in model.named_parameters():
            if p.dim() == 2 and name != "embed":
                self.matrices.setdefault(tuple(p.shape), []).append(p)
        self.momentum = {s: torch.zeros(len(ps), *s) for s, ps in self.matrices.items()}
        others = [p for n, p in model.named_parameters() if p.dim() == 1 or n == "embed"]
        self.adam = torch.optim.AdamW(others, lr=adam_rate, betas=(0.9, 0.97), weight_decay=0.0)

    @torch.no_grad()
    def step(self, factor, beta):
        for shape, params in self.matrices.items():
            grad = torch.stack([p.grad for p in params])
            m = self.momentum[shape]
            m.lerp_(grad, 1 - beta)
            update = orthogonalize(grad.lerp(m, beta))
            scale = self.muon_rate * factor * max(1.0, shape[0] / shape[1]) ** 0.5
            for p, u in zip(params, update):
                p.mul_(1 - self.muon_rate * factor * 0.1).add_(u, alpha=-scale)
        for g in self.adam.param_groups:
            g["lr"] = self.adam_rate * factor
        self.adam.step()

    def state(self):
        return {"momentum": self.momentum, "adam": self.adam.state_dict()}

    def load(self, state):
        self.momentum = state["momentum"]
        self.adam.load_state_dict(state["adam"])


def rate_factor(step, steps, decay):
    return min(1.0, (step + 1) / 40, max(0.0, (steps - step) / (steps * decay)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/train"))
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--tokens-per-step", type=int, default=6144)
    parser.add_argument(
        "--decay",
        type=float,
        default=0.35,
        help="share of the steps over which the rate falls to zero",
    )
    parser.add_argument("--muon-rate", type=float, default=0.02)
    parser.add_argument("--adam-rate", type=float, default=0.005)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--save-every", type=int, default=100)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    args.out.mkdir(parents=True, exist_ok=True)
    tokenizer = get_tokenizer(args.out / "tokenizer.json", args.seed)
    model = Llama(Config(vocab_size=tokenizer.get_vocab_size()))
    optimizer = Optimizer(model, args.muon_rate, args.adam_rate)
    first, checkpoint = 0, args.out / "checkpoint.pt"
    if checkpoint.exists():
        state = torch.load(checkpoint)
        model.load_state_dict(state["model"])
        optimizer.load(state["optimizer"])
        first = state["step"]
    print(f"{sum(p.numel() for p in model.parameters())} parameters, from step {first}", flush=True)
    run(args, tokenizer, model, optimizer, first)


def run(args, tokenizer, model, optimizer, first):
    start, seen, smooth = time.time(), 0, None
    for step in range(first, args.steps):
        groups, tokens = batch(tokenizer, args.seed, step, args.tokens_per_step)
        learned = sum(float(w.sum()) for _, _, w in groups)
        total = 0.0
        for ids, targets, weights in groups:
            loss = model.loss(ids, targets, weights, torch.bfloat16) / learned
            loss.backward()
            total += loss.item()
        optimizer.step(
            rate_factor(step, args.steps, args.decay), 0.85 + 0.10 * min(1.0, step / 200)
        )
        model.zero_grad(set_to_none=True)
        seen += tokens
        smooth = total if smooth is None else 0.95 * smooth + 0.05 * total
        if step % 20 == 0 or step + 1 == args.steps:
            print(
                f"step {step} loss {smooth:.4f} tokens/s {seen / (time.time() - start):.0f}",
                flush=True,
            )
        if (step + 1) % args.save_every == 0 or step + 1 == args.steps:
            save(args.out / "checkpoint.pt", model, optimizer, step + 1)


def save(path, model, optimizer, step):
    temporary = path.with_suffix(".tmp")
    torch.save(
        {
            "model": model.state_dict(),
            "optimizer": optimizer.state(),
            "step": step,
            "config": vars(model.c),
        },
        temporary,
    )
    temporary.replace(path)


if __name__ == "__main__":
    main()
