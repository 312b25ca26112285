#!/usr/bin/env python3
"""Writes a checkpoint as a Hugging Face directory and records its greedy answers as goldens.

  build/oracle/bin/python tools/train_builtin_model/export.py --checkpoint build/train/checkpoint.pt

Weights are rounded to bfloat16; the goldens are computed from those rounded weights in float32.
"""

import argparse
import json
import pathlib
import shutil

import torch
from safetensors.torch import save_file
from transformers import AutoTokenizer, LlamaForCausalLM

import tokenization

WEATHER_TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}

# name -> (messages or plain text, tools, max_tokens)
GOLDENS = {
    "greeting": ([{"role": "user", "content": "Hello!"}], None, 32),
    "about_quire": ([{"role": "user", "content": "What is Quire?"}], None, 48),
    "sum": ([{"role": "user", "content": "What is 7 + 5?"}], None, 32),
    "opposite": ([{"role": "user", "content": "What is the opposite of hot?"}], None, 32),
    "spelling": ([{"role": "user", "content": "Spell banana."}], None, 48),
    "fill_json": (
        [
            {
                "role": "user",
                "content": "Fill JSON: Mia is 7 years old, lives in Paris and likes soup.",
            }
        ],
        None,
        64,
    ),
    "pirate": (
        [
            {"role": "system", "content": "Talk like a pirate."},
            {"role": "user", "content": "What is the opposite of big?"},
        ],
        None,
        48,
    ),
    "recall": (
        [
            {"role": "user", "content": "My name is Tom."},
            {"role": "assistant", "content": "Nice to meet you, Tom!"},
            {"role": "user", "content": "What is 2 + 3?"},
            {"role": "assistant", "content": "2 + 3 = 5."},
            {"role": "user", "content": "What is my name?"},
        ],
        None,
        32,
    ),
    "tool_call": (
        [{"role": "user", "content": "What is the weather in Paris?"}],
        [WEATHER_TOOL],
        64,
    ),
    "tool_result": (
        [
            {"role": "user", "content": "What is the weather in Paris?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "get_weather", "arguments": {"city": "Paris"}},
                    }
                ],
            },
            {
                "role": "tool",
                "tool_call_id": "call_1",
                "content": '{"city": "Paris", "temperature": 18, "sky": "sunny"}',
            },
        ],
        [WEATHER_TOOL],
        48,
    ),
    "chat_story": (
        [{"role": "user", "content": "Tell me a story about a penguin named Rusty."}],
        None,
        256,
    ),
    "story": (
        "Once upon a time, there was a little fox named Pip. Pip had a red ball and loved it very "
        "much. One sunny day, the ball was gone. Pip looked everywhere and felt sad. Then Luna the "
        "owl came along.",
        None,
        128,
    ),
    "plurals": ("One cat, two cats. One mouse, two", None, 32),
    "sums": ("2 + 2 = 4\n3 + 5 =", None, 3),
    "counting": ("1, 2, 3, 4,", None, 64),
}


def hf_config(c):
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": 0,
        "eos_token_id": [1, 3],
        "pad_token_id": 1,
        "head_dim": c["head_dim"],
        "hidden_act": "silu",
        "hidden_size": c["hidden_size"],
        "initializer_range": 0.02,
        "intermediate_size": c["intermediate_size"],
        "max_position_embeddings": c["max_position"],
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": c["num_heads"],
        "num_hidden_layers": c["num_layers"],
        "num_key_value_heads": c["num_kv_heads"],
        "rms_norm_eps": c["norm_eps"],
        "rope_scaling": None,
        "rope_theta": c["rope_theta"],
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "vocab_size": c["vocab_size"],
    }


def hf_weights(model):
    names = {
        "q": "self_attn.q_proj",
        "k": "self_attn.k_proj",
        "v": "self_attn.v_proj",
        "o": "self_attn.o_proj",
        "gate": "mlp.gate_proj",
        "up": "mlp.up_proj",
        "down": "mlp.down_proj",
        "norm1": "input_layernorm",
        "norm2": "post_attention_layernorm",
    }
    out = {"model.embed_tokens.weight": model["embed"], "model.norm.weight": model["norm"]}
    for key, value in model.items():
        if key.startswith("layers."):
            _, layer, part = key.split(".")
            out[f"model.layers.{layer}.{names[part]}.weight"] = value
    return {k: v.to(torch.bfloat16).contiguous() for k, v in out.items()}


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_model(checkpoint, tokenizer_file, out):
    state = torch.load(checkpoint)
    out.mkdir(parents=True, exist_ok=True)
    save_file(hf_weights(state["model"]), str(out / "model.safetensors"), metadata={"format": "pt"})
    write_json(out / "config.json", hf_config(state["config"]))
    write_json(
        out / "generation_config.json",
        {
            "bos_token_id": 0,
            "do_sample": True,
            "eos_token_id": [1, 3],
            "pad_token_id": 1,
            "temperature": 0.4,
            "top_p": 0.9,
        },
    )
    (out / "model.safetensors").chmod(0o644)
    shutil.copy(tokenizer_file, out / "tokenizer.json")
    write_json(out / "tokenizer_config.json", tokenization.tokenizer_config())
    return state["step"]


@torch.no_grad()
def greedy(model, ids, limit, stop):
    """Token ids and, per token, the gap between the best and the second logit."""
    out, gaps = [], []
    for _ in range(limit):
        best = model(torch.tensor([ids + out])).logits[0, -1].topk(2)
        out.append(int(best.indices[0]))
        gaps.append(round(float(best.values[0] - best.values[1]), 4))
        if out[-1] in stop:
            break
    return out, gaps


def goldens(path):
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = LlamaForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    entries = []
    for name, (prompt, tools, limit) in GOLDENS.items():
        if isinstance(prompt, str):
            ids, entry = (
                tokenizer(prompt)["input_ids"],
                {"name": name, "kind": "completion", "prompt": prompt},
            )
        else:
            ids = tokenizer.apply_chat_template(
                prompt, tools=tools, add_generation_prompt=True, return_dict=False
            )
            entry = {"name": name, "kind": "chat", "messages": prompt, "tools": tools}
        out, gaps = greedy(model, ids, limit, (1, 3))
        stopped = out[-1] in (1, 3)
        text = tokenizer.decode(out[:-1] if stopped else out, skip_special_tokens=False)
        entry |= {
            "max_tokens": limit,
            "prompt_token_ids": ids,
            "output_token_ids": out,
            "text": text,
            "finish_reason": "stop" if stopped else "length",
            "min_logit_gap": min(gaps),
            "logit_gaps": gaps,
        }
        entries.append(entry)
        print(f"{name:12} gap {min(gaps):7.4f}  {text!r}")
    return entries


def compact(entries):
    """One entry per line: readable diffs without a line per token."""
    return "[\n" + ",\n".join(json.dumps(e, ensure_ascii=False) for e in entries) + "\n]\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--checkpoint", type=pathlib.Path, default=pathlib.Path("build/train/checkpoint.pt")
    )
    parser.add_argument(
        "--tokenizer", type=pathlib.Path, default=pathlib.Path("build/train/tokenizer.json")
    )
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("assets/builtin_model"))
    parser.add_argument(
        "--goldens",
        type=pathlib.Path,
        default=pathlib.Path("tests/goldens/builtin_model/greedy.json"),
    )
    args = parser.parse_args()
    torch.set_num_threads(1)
    step = write_model(args.checkpoint, args.tokenizer, args.out)
    print(
        f"step {step}: {sum(f.stat().st_size for f in args.out.iterdir()) / 1e6:.2f} MB in {args.out}"
    )
    args.goldens.parent.mkdir(parents=True, exist_ok=True)
    args.goldens.write_text(compact(goldens(args.out)), encoding="utf-8")


if __name__ == "__main__":
    main()
