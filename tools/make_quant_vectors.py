#!/usr/bin/env python3
"""Small quantized matrices of every layout on disk, and the float32 weights that they stand for.

    build/oracle/bin/python tools/make_quant_vectors.py

Writes tests/goldens/quant/: one safetensors file and config.json per scheme, two GGUF files for all block types.
Beside the tensors of module "m" each file holds "expected", float32 [N, K], computed from the codes (tools/
quant_layouts.py) by a plain decoder of the blocks (tools/gguf_blocks.py) or by the `gguf` package, never by Quire.
"""

import json
import pathlib
import shutil

import numpy as np
import safetensors.torch
import torch

import gguf_blocks
import quant_layouts as layouts

ROOT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "goldens" / "quant"


def compressed(fmt, bits=4, kind="int", symmetric=True, strategy="group", group=None, block=None, order=None,
               activations=None):
    weights = dict(num_bits=bits, type=kind, symmetric=symmetric, strategy=strategy, group_size=group,
                   block_structure=block, actorder=order)
    groups = {"group_0": dict(targets=["Linear"], weights=weights, input_activations=activations)}
    return dict(quant_method="compressed-tensors", format=fmt, config_groups=groups, ignore=["lm_head"])


def gptq(bits, group, sym, order=False, fmt="gptq"):
    return dict(quant_method="gptq", bits=bits, group_size=group, sym=sym, desc_act=order, checkpoint_format=fmt)


def schemes(rng):
    """name -> (quantization_config, tensors, expected)."""
    weights = lambda n, k: rng.standard_normal((n, k)).astype(np.float32)
    dynamic = dict(num_bits=8, type="int", dynamic=True, symmetric=True, strategy="token")
    static = dict(num_bits=8, type="int", dynamic=False, symmetric=True, strategy="tensor")
    w = weights(24, 96)
    out = {
        "awq_g32": (dict(quant_method="awq", bits=4, group_size=32, zero_point=True, version="gemm"),
                    *layouts.awq(w, 32)),
        "awq_row_old_keys": (dict(quant_method="awq", w_bit=4, q_group_size=-1, version="GEMM"), *layouts.awq(w, -1)),
        "gptq2_asym": (gptq(2, 32, False), *layouts.gptq(w, 2, 32, False)),
        "gptq3_sym": (gptq(3, 32, True), *layouts.gptq(weights(32, 96), 3, 32, True)),
        "gptq3_asym_v2": (gptq(3, 32, False, fmt="gptq_v2"), *layouts.gptq(weights(32, 96), 3, 32, False, v2=True)),
        "gptq4_sym": (gptq(4, 32, True), *layouts.gptq(w, 4, 32, True)),
        "gptq4_sym_v2": (gptq(4, 32, True, fmt="gptq_v2"), *layouts.gptq(w, 4, 32, True, v2=True)),
        "gptq4_sym_says_v1_holds_v2": (gptq(4, 32, True), *layouts.gptq(w, 4, 32, True, v2=True)),
        "gptq4_asym_order": (gptq(4, 32, False, True), *layouts.gptq(w, 4, 32, False, act_order=True, rng=rng)),
        "gptq8_row": (gptq(8, -1, True), *layouts.gptq(w, 8, -1, True)),
        "packed4_sym": (compressed("pack-quantized", group=32), *layouts.pack_quantized(w, 4, 32, True)),
        "packed4_asym": (compressed("pack-quantized", group=32, symmetric=False),
                         *layouts.pack_quantized(weights(20, 96), 4, 32, False)),
        "packed4_row_bf16": (compressed("pack-quantized", strategy="channel"),
                             *layouts.pack_quantized(w, 4, -1, True, scale_dtype=torch.bfloat16)),
        "packed4_order": (compressed("pack-quantized", group=32, order="group"),
                          *layouts.pack_quantized(w, 4, 32, True, act_order=True, rng=rng)),
        "packed3_dense_asym": (compressed("pack-quantized", bits=3, group=32, symmetric=False),
                               *layouts.pack_quantized(weights(20, 96), 3, 32, False)),
        "packed3_padded": (compressed("pack-quantized", bits=3, group=32),
                           *layouts.pack_quantized(w, 3, 32, True, padded=True)),
        "packed5_padded_asym": (compressed("pack-quantized", bits=5, group=32, symmetric=False),
                                *layouts.pack_quantized(weights(20, 96), 5, 32, False, padded=True)),
        "packed7_odd_row": (compressed("pack-quantized", bits=7, strategy="channel"),
                            *layouts.pack_quantized(weights(9, 45), 7, -1, True)),
        "packed8_partial_group": (compressed("pack-quantized", bits=8, group=64),
                                  *layouts.pack_quantized(w, 8, 64, True)),
        "int8_dynamic": (compressed("int-quantized", bits=8, strategy="channel", activations=dynamic),
                         *layouts.int8(w)),
        "int8_static_tensor": (compressed("int-quantized", bits=8, strategy="tensor", activations=static),
                               *layouts.int8(w, static=0.03, per_tensor=True)),
        "fp8_tensor": (compressed("float-quantized", bits=8, kind="float", strategy="tensor"), *layouts.fp8(w, None)),
        "fp8_channel_bf16": (compressed("float-quantized", bits=8, kind="float", strategy="channel"),
                             *layouts.fp8(w, "channel", scale_dtype=torch.bfloat16)),
        "fp8_block": (compressed("float-quantized", bits=8, kind="float", strategy="block", block=[16, 64]),
                      *layouts.fp8(w, (16, 64))),
        "fp8_method_block": (dict(quant_method="fp8", activation_scheme="dynamic", weight_block_size=[16, 32]),
                             *layouts.fp8(weights(40, 80), (16, 32), scale_name="weight_scale_inv")),
        "fp8_method_tensor": (dict(quant_method="fp8", activation_scheme="static"),
                              *layouts.fp8(w, None, scalar=(1,))),
    }
    return out


def float_schemes(rng):
    """Like schemes(), for floats with block scales."""
    w = rng.standard_normal((24, 96)).astype(np.float32)
    return {
        "nvfp4": (compressed("nvfp4-pack-quantized", bits=4, kind="float", strategy="tensor_group", group=16,
                             activations=dict(num_bits=4, type="float", dynamic="local", strategy="tensor_group")),
                  *layouts.nvfp4(w)),
        "nvfp4_modelopt": (dict(quant_method="modelopt", quant_algo="NVFP4", group_size=16),
                           *layouts.nvfp4(w, modelopt=True)),
        "mxfp4": (compressed("mxfp4-pack-quantized", bits=4, kind="float", group=32), *layouts.mx(w, 4)),
        "mxfp8": (compressed("mxfp8-quantized", bits=8, kind="float", group=32), *layouts.mx(w, 8)),
    }


def ternary_schemes(rng):
    """Like schemes(), for BitNet, with more inputs than one group."""
    w = rng.standard_normal((8, 320)).astype(np.float32)
    config = lambda kind: dict(quant_method="bitnet", linear_class=kind, quantization_mode="offline")
    return {"bitnet": (config("autobitlinear"), *layouts.bitnet(w)),
            "bitnet_divided": (config("bitlinear"), *layouts.bitnet(w, divides=True))}


def gguf_file(path, rng):
    tensors = {}
    for kind, (_, elements, _) in gguf_blocks.TYPES.items():
        if elements == 1:
            continue
        w = rng.standard_normal((2, 2 * elements)).astype(np.float32)
        raw = gguf_blocks.encode(kind, w, rng)
        name = kind.lower()
        tensors[f"{name}.weight"] = (kind, raw)
        expected = gguf_blocks.decode(kind, raw).view(np.uint8).reshape(len(w), -1)
        tensors[f"{name}.expected"] = ("F32", expected)
    gguf_blocks.write_gguf(path, {"general.architecture": "vectors"}, tensors)


def grids_file(path, rng):
    """Writes blocks of the IQ and TQ types with random bits, and their values decoded by the `gguf` package."""
    tensors = {}
    for kind in gguf_blocks.GRID_TYPES:
        scales = rng.uniform(1e-4, 1, (2, 2))
        scales[0, 0] = 5e-7  # subnormal
        raw = gguf_blocks.random_blocks(kind, scales, rng)
        tensors[f"{kind.lower()}.weight"] = (kind, raw)
        tensors[f"{kind.lower()}.expected"] = ("F32", gguf_blocks.decode_random(kind, raw).view(np.uint8).reshape(2, -1))
    gguf_blocks.write_gguf(path, {"general.architecture": "vectors"}, tensors)


def main():
    shutil.rmtree(ROOT, ignore_errors=True)
    rng = np.random.default_rng(11)
    all_schemes = (schemes(rng) | float_schemes(np.random.default_rng(12)) | ternary_schemes(np.random.default_rng(14)))
    for name, (config, tensors, expected) in all_schemes.items():
        folder = ROOT / name
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
        stored = {f"m.{suffix}": tensor.contiguous() for suffix, tensor in tensors.items()}
        stored["expected"] = torch.from_numpy(np.ascontiguousarray(expected, np.float32))
        safetensors.torch.save_file(stored, folder / "model.safetensors")
        print(f"{name:28} {', '.join(f'{k} {tuple(v.shape)}' for k, v in tensors.items())}")
    gguf_file(ROOT / "blocks.gguf", rng)
    grids_file(ROOT / "grids.gguf", np.random.default_rng(13))


if __name__ == "__main__":
    main()
