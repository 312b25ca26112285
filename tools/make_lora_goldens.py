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
import safetensors.torch
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
    # Two parameters hold all experts of a layer, and the router is a third; one of them has another rank.
    "experts": dict(r=3, lora_alpha=5, rank_pattern={"experts.down_proj": 2},
                    target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj", "mlp.gate.weight"]),
    "gpt_oss_experts": dict(r=2, lora_alpha=5, target_parameters=["mlp.experts.gate_up_proj",
                                                                  "mlp.experts.down_proj"]),
    "down": dict(r=2, lora_alpha=3, target_parameters=["mlp.experts.down_proj"]),
    "granite_experts": dict(r=2, lora_alpha=3, target_parameters=["input_linear.weight", "output_linear.weight"]),
    # The format of one module per expert, which PEFT wrote before transformers joined the experts. peft reads both formats.
    "each": dict(r=2, lora_alpha=3, target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]),
    "ends": dict(r=4, lora_alpha=6, target_modules=["q_proj", "embed_tokens", "lm_head"]),
    "whole": dict(r=2, lora_alpha=3, target_modules=["q_proj", "c_attn", "Wqkv"],
                  modules_to_save=["embed_tokens", "lm_head", "norm", "input_layernorm", "ln_f", "wte", "ln_1",
                                   "post_attention_layernorm", "post_feedforward_layernorm"]),
}
ADAPTERS = [("llama", name) for name in ("plain", "rslora", "bias", "dora")] + [
    ("phi3", "bias"), ("gpt2", "bias"), ("gpt_neox", "bias"), ("falcon_7b", "plain"), ("gemma2", "plain"),
    ("qwen3", "rslora"), ("olmo2", "plain"), ("phi", "bias"), ("lfm2", "plain"), ("starcoder2", "bias")] + [
    (base, "dora") for base in ("llama", "phi3", "gpt2", "gpt_neox", "gemma2", "lfm2")] + [
    ("mixtral", "experts"), ("mixtral", "down"), ("qwen3_moe", "experts"), ("gpt_oss", "gpt_oss_experts"), ("qwen2_moe", "down"),
    ("granitemoe", "granite_experts"), ("olmoe", "each"), ("llama", "ends"), ("gemma2", "ends"), ("llama", "whole"),
    ("gemma2", "whole"), ("gpt2", "whole")]


def split_experts(folder, model):
    """Rewrites adapters of all experts of a layer, of rank r, into one adapter per expert and matrix."""
    path = folder / "adapter_model.safetensors"
    tensors = safetensors.torch.load_file(path)
    config = json.loads((folder / "adapter_config.json").read_text())
    rank, experts, out = config["r"], model.config.num_experts, {}
    for name, a in tensors.items():
        if ".mlp.experts." not in name:
            out[name] = a
            continue
        if ".lora_A" not in name:
            continue
        b = tensors[name.replace("lora_A", "lora_B")]
        layer = name[:name.index(".mlp.experts.")] + ".mlp.experts"
        parts = ["gate_proj", "up_proj"] if ".base_layer." in name else ["down_proj"]
        a = a.reshape(experts, rank, -1)
        b = b.reshape(b.shape[0], rank, experts)
        for expert in range(experts):
            for part, rows in zip(parts, b[:, :, expert].chunk(len(parts))):
                out[f"{layer}.{expert}.{part}.lora_A.weight"] = a[expert].clone()
                out[f"{layer}.{expert}.{part}.lora_B.weight"] = rows.clone()
    safetensors.torch.save_file(out, path)
    config.update(target_parameters=None, target_modules=config["target_modules"] + ["gate_proj", "up_proj", "down_proj"])
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")


def make(base, variant):
    folder = GOLDENS / "lora" / f"{base}.{variant}"
    shutil.rmtree(folder, ignore_errors=True)
    model = tf.AutoModelForCausalLM.from_pretrained(GOLDENS / "models" / base, dtype=torch.float32,
                                                    attn_implementation="eager").eval()
    golden = json.loads((GOLDENS / "models" / base / "golden.json").read_text())
    experts = "target_parameters" in VARIANTS[variant]
    modules = ["q_proj", "o_proj"] if experts else "all-linear"
    config = peft.LoraConfig(task_type="CAUSAL_LM", **{"target_modules": modules, **VARIANTS[variant]})
    model = peft.get_peft_model(model, config).eval()
    torch.manual_seed(len(base) + len(variant))
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "modules_to_save" in name:
                value.add_(torch.randn_like(value) * 0.1)
            elif "lora_" in name:
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
    if variant == "each":
        split_experts(folder, model)
    rows = list(range(len(golden["prompt"]) - ROWS, len(golden["prompt"])))
    kept = base64.b64encode(logits[rows].float().contiguous().numpy().tobytes()).decode()
    golden.update(tokens=[], rows=rows, min_gap=0.0, logits_f32_base64=kept)
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")
    print(f"{base}.{variant}: moved the logits by {moved:.2f}")


if __name__ == "__main__":
    for one in ADAPTERS:
        if not sys.argv[1:] or ".".join(one) in sys.argv[1:]:
            make(*one)
