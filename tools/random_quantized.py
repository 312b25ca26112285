"""Random quantized checkpoints: a scheme with random options over a random model, for compare_random_models.py.

`quantize(r, model, folder)` writes the checkpoint of `model` in a random scheme's layout (tools/quant_layouts.py) and
leaves in `model` the weights that it stands for, so that transformers computes in float32 what the checkpoint means.
"""

import json

import numpy as np
import safetensors.torch
import torch
import transformers as tf

import gguf_blocks
import quant_layouts as layouts
from make_model_goldens import gguf_metadata, gguf_name, gguf_tensors
from make_quant_vectors import compressed, gptq

DYNAMIC = dict(num_bits=8, type="int", dynamic=True, symmetric=True, strategy="token")


def sizes(r):
    """Widths in whole groups of 32; as compare_random_models.sizes()."""
    kv_heads = r.choice([1, 2, 3])
    heads = kv_heads * r.choice([1, 2])
    head_dim = r.choice([32, 64]) if heads % 2 else r.choice([16, 32, 48])
    return dict(vocab_size=8 * r.randint(6, 40), hidden_size=heads * head_dim, intermediate_size=32 * r.randint(1, 6),
                num_hidden_layers=r.randint(1, 3), num_attention_heads=heads, num_key_value_heads=kv_heads,
                max_position_embeddings=256, tie_word_embeddings=r.random() < 0.5,
                rms_norm_eps=r.choice([1e-6, 1e-5]), bos_token_id=1, eos_token_id=2, pad_token_id=0), head_dim


class Scheme:
    """config: the quantization_config; quantize: weights [N, K] -> (tensors, exact); skip: names left as they are."""

    def __init__(self, name, config, quantize, skip=(), round_inputs=False):
        self.name, self.config, self.quantize = name, config, quantize
        self.skip, self.round_inputs = skip, round_inputs


def awq(r, rng, skipped):
    group = r.choice([16, 32, -1])
    keys = ("bits", "group_size") if r.random() < 0.7 else ("w_bit", "q_group_size")
    config = dict(quant_method="awq", zero_point=True, version=r.choice(["gemm", "GEMM"]),
                  modules_to_not_convert=list(skipped) or None) | dict(zip(keys, (4, group)))
    return Scheme("awq", config, lambda w: layouts.awq(w, group), skipped)


def gptq_any(r, rng, skipped):
    bits, group = r.choice([2, 3, 4, 4, 8]), r.choice([16, 32, -1])
    symmetric, v2, order = r.random() < 0.5, r.random() < 0.5, r.random() < 0.3
    config = gptq(bits, group, symmetric, order, "gptq_v2" if v2 else "gptq")
    if skipped:
        config["dynamic"] = {f"-:.*{name.replace('.', '[.]')}.*": {} for name in skipped}
    return Scheme("gptq", config,
                  lambda w: layouts.gptq(w, bits, group, symmetric, v2=v2, act_order=order, rng=rng), skipped)


def packed(r, rng, skipped):
    bits, group = r.choice([2, 3, 4, 4, 5, 6, 7, 8]), r.choice([16, 32, -1])
    symmetric, order = r.random() < 0.5, r.random() < 0.3 and group != -1
    padded = 32 % bits != 0 and r.random() < 0.4
    dtype = r.choice([torch.float16, torch.bfloat16])
    config = compressed("pack-quantized", bits=bits, group=None if group == -1 else group, symmetric=symmetric,
                        strategy="channel" if group == -1 else "group", order="group" if order else None)
    config["ignore"] = ignored(r, skipped)
    return Scheme("pack-quantized", config,
                  lambda w: layouts.pack_quantized(w, bits, group, symmetric, padded, order, rng, dtype), skipped)


def int8(r, rng, skipped):
    per_tensor, activations = r.random() < 0.3, r.choice([None, DYNAMIC])
    config = compressed(r.choice(["int-quantized", "naive-quantized"]), bits=8,
                        strategy="tensor" if per_tensor else "channel", activations=activations)
    config["ignore"] = ignored(r, skipped)
    return Scheme("int8", config, lambda w: layouts.int8(w, per_tensor=per_tensor), skipped, activations is not None)


def fp8(r, rng, skipped):
    dtype = r.choice([torch.float32, torch.bfloat16])
    if r.random() < 0.5:
        block = r.choice([(16, 16), (32, 64), (128, 128)])
        config = dict(quant_method="fp8", activation_scheme="dynamic", weight_block_size=list(block))
        if skipped:
            config["modules_to_not_convert"] = list(skipped)
        return Scheme("fp8 blocks", config, lambda w: layouts.fp8(w, block, "weight_scale_inv", dtype), skipped)
    strategy = r.choice(["tensor", "channel"])
    config = compressed("float-quantized", bits=8, kind="float", strategy=strategy)
    config["ignore"] = ignored(r, skipped)
    scalar = r.choice([(), (1,)])
    return Scheme(f"fp8 {strategy}", config, lambda w: layouts.fp8(
        w, None if strategy == "tensor" else strategy, scale_dtype=dtype, scalar=scalar), skipped)


def ignored(r, skipped):
    """By name or by pattern."""
    return ["lm_head"] + [f"re:.*{name.replace('.', '[.]')}$" for name in skipped]


SCHEMES = [awq, gptq_any, packed, int8, fp8]


def gguf_config(r, family):
    """Returns a configuration that the metadata of a GGUF file can express. Some have widths of 256, which
    super-blocks need."""
    base, dim = sizes(r)
    if r.random() < 0.4:
        dim = 64
        base |= dict(hidden_size=256, intermediate_size=256, num_hidden_layers=1, num_attention_heads=4,
                     num_key_value_heads=r.choice([1, 2, 4]), vocab_size=8 * r.randint(6, 12))
    base["rope_parameters"] = dict(rope_type="default", rope_theta=r.choice([10000.0, 500000.0]))
    if family == "llama":
        return tf.LlamaConfig(**base, head_dim=dim)
    if family == "qwen2":
        return tf.Qwen2Config(**base)
    base["tie_word_embeddings"] = True
    return tf.Gemma2Config(**base, head_dim=dim, sliding_window=r.choice([4, 20]), query_pre_attn_scalar=dim)


def is_linear(name, tensor):
    return tensor.ndim == 2 and name.endswith(".weight") and "embed" not in name and "lm_head" not in name


def has_whole_groups(model):
    return all(n % 32 == 0 for key, tensor in model.state_dict().items() if is_linear(key, tensor)
               for n in tensor.shape)


def skipped_modules(r, model):
    """Returns some projections that the checkpoint does not quantize; in most models none."""
    stems = sorted({key.split(".")[-2] for key, tensor in model.state_dict().items() if is_linear(key, tensor)})
    return tuple(r.sample(stems, r.randint(1, 2))) if r.random() < 0.4 else ()


def write_shards(r, stored, folder):
    if r.random() < 0.6:
        safetensors.torch.save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
        return
    names = sorted(stored)
    r.shuffle(names)
    cut = r.randint(1, len(names) - 1)
    weight_map = {}
    for i, part in enumerate((names[:cut], names[cut:])):
        file = f"model-{i + 1:05}-of-00002.safetensors"
        safetensors.torch.save_file({name: stored[name] for name in part}, folder / file, metadata={"format": "pt"})
        weight_map |= {name: file for name in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps(dict(metadata={}, weight_map=weight_map)))


def quantize(r, model, folder):
    """Writes the checkpoint to `folder` and returns its scheme."""
    rng = np.random.default_rng(r.randrange(10**6))
    scheme = r.choice(SCHEMES)(r, rng, skipped_modules(r, model))
    stored = {}
    for key, tensor in model.state_dict().items():
        module = key.removesuffix(".weight")
        if key == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        if not is_linear(key, tensor) or module.split(".")[-1] in scheme.skip:
            stored[key] = tensor.to(torch.bfloat16).clone()
            tensor.copy_(stored[key].float())
            continue
        tensors, exact = scheme.quantize(tensor.numpy().astype(np.float32))
        stored.update({f"{module}.{suffix}": value.contiguous() for suffix, value in tensors.items()})
        tensor.copy_(torch.from_numpy(np.ascontiguousarray(exact)))
    model.config.dtype = "bfloat16"
    model.config.save_pretrained(folder)
    path = folder / "config.json"
    config = dict(json.loads(path.read_text()), quantization_config=scheme.config)
    path.write_text(json.dumps(config, indent=1) + "\n")
    write_shards(r, stored, folder)
    return scheme


def quantize_gguf(r, model, folder):
    """Writes a GGUF file of `model` with a random block type per tensor, and returns its path."""
    arch = model.config.model_type
    rng = np.random.default_rng(r.randrange(10**6))
    stored, exact = {}, {}
    for key, value in gguf_tensors(model, arch).items():
        if value.ndim == 1:
            stored[key] = ("F32", value.copy())
            continue
        kinds = [kind for kind, (_, elements, _) in gguf_blocks.TYPES.items() if value.shape[1] % elements == 0]
        kind = r.choice(kinds)
        stored[key] = (kind, gguf_blocks.encode(kind, value, rng))
        exact[key] = gguf_blocks.decode(kind, stored[key][1])
    heads = dict(q_proj=model.config.num_attention_heads, k_proj=model.config.num_key_value_heads)
    for key, tensor in model.state_dict().items():
        if tensor.ndim != 2 or (key == "lm_head.weight" and model.config.tie_word_embeddings):
            continue
        value = exact[gguf_name(key, arch)]
        stem = key.split(".")[-2]
        if arch == "llama" and stem in heads:  # pairs of a head back to halves
            half = value.shape[0] // heads[stem] // 2
            value = value.reshape(heads[stem], half, 2, -1).swapaxes(1, 2).reshape(value.shape)
        tensor.copy_(torch.from_numpy(np.ascontiguousarray(value)))
    path = folder / "model.gguf"
    gguf_blocks.write_gguf(path, gguf_metadata(model.config, arch), stored)
    return path
