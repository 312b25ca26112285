#!/usr/bin/env python3
"""Loads what `quire quantize` wrote with transformers and compressed-tensors, and compares logits with the source.

    build/oracle/bin/python tools/check_quantized.py SOURCE_DIR QUANTIZED_DIR

Needs the oracle environment and the package compressed-tensors. Prints the relative error of the logits over some tokens;
exits with 1 when the checkpoint does not load or its logits are far from the source's.
"""

import sys

import torch
import transformers as tf


def logits(folder, ids):
    config = tf.AutoConfig.from_pretrained(folder)
    options = dict(dtype=torch.float32, attn_implementation="eager")
    if getattr(config, "quantization_config", None):
        from transformers import CompressedTensorsConfig
        options["quantization_config"] = CompressedTensorsConfig(run_compressed=False)
    model = tf.AutoModelForCausalLM.from_pretrained(folder, **options).eval()
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].float(), config.vocab_size


def main():
    source, quantized = sys.argv[1:3]
    vocab = tf.AutoConfig.from_pretrained(source).vocab_size
    ids = [(3 + i * 37) % (vocab - 3) for i in range(40)]
    a, _ = logits(source, ids)
    b, _ = logits(quantized, ids)
    error = float(((a - b).norm(dim=1) / a.norm(dim=1)).mean())
    print(f"{quantized}: logits differ by {100 * error:.2f} % of their norm")
    if not error < 0.6:
        sys.exit(1)


if __name__ == "__main__":
    main()
