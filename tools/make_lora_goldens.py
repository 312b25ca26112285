#!/usr/bin/env python3
"""Tiny random LoRA adapters of golden models, and what peft computes with them in float32.

    build/oracle/bin/python tools/make_lora_goldens.py [MODEL.VARIANT …]

Writes tests/goldens/lora/MODEL.VARIANT/: the adapter as peft saves it, and golden.json as tools/make_model_goldens.py does.
"""

import base64
import json
import pathlib
import shutil
import sys

import peft
import torch
import transformers as tf

GOLDENS = pathlib.Path(__file__).resolve().parent.parent / "tests" / "goldens"
ROWS = 6
VARIANTS = {
    "plain": dict(r=4, lora_alpha=8),
    "rslora": dict(r=3, lora_alpha=5, use_rslora=True, rank_pattern={"k_proj": 1, "down_proj": 6},
                   alpha_pattern={"q_proj": 9}),
    "bias": dict(r=2, lora_alpha=3, lora_bias=True),
    "dora": dict(r=3, lora_alpha=5, use_dora=True),
}
ADAPTERS = [("llama", name) for name in VARIANTS] + [
    ("phi3", "bias"), ("gpt2", "bias"), ("gpt_neox", "bias"), ("falcon_7b", "plain"), ("gemma2", "plain"),
    ("qwen3", "rslora"), ("olmo2", "plain"), ("phi", "bias"), ("lfm2", "plain"), ("starcoder2", "bias")] + [
    (base, "dora") for base in ("llama", "phi3", "gpt2", "gpt_neox", "gemma2", "lfm2")]


def make(base, variant):
    folder = GOLDENS / "lora" / f"{base}.{variant}"
    shutil.rmtree(folder, ignore_errors=True)
    model = tf.AutoModelForCausalLM.from_pretrained(GOLDENS / "models" / base, dtype=torch.float32,
                                                    attn_implementation="eager").eval()
    golden = json.loads((GOLDENS / "models" / base / "golden.json").read_text())
    config = peft.LoraConfig(task_type="CAUSAL_LM", target_modules="all-linear", **VARIANTS[variant])
    model = peft.get_peft_model(model, config).eval()
    torch.manual_seed(len(base) + len(variant))
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "lora_" in name:
                value.copy_(torch.randn_like(value) * 0.15 if "magnitude" not in name else
                            value * (0.7 + 0.6 * torch.rand_like(value)))
        logits = model(torch.tensor([golden["prompt"]])).logits[0]
        with model.disable_adapter():
            moved = (model(torch.tensor([golden["prompt"]])).logits[0] - logits).norm() / logits.norm()
    assert moved > 0.02, (base, variant, moved)
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    config = json.loads((folder / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = base
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    rows = list(range(len(golden["prompt"]) - ROWS, len(golden["prompt"])))
    kept = base64.b64encode(logits[rows].float().contiguous().numpy().tobytes()).decode()
    golden.update(tokens=[], rows=rows, min_gap=0.0, logits_f32_base64=kept)
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")
    print(f"{base}.{variant}: moved the logits by {moved:.2f}")


if __name__ == "__main__":
    for one in ADAPTERS:
        if not sys.argv[1:] or ".".join(one) in sys.argv[1:]:
            make(*one)
