#!/usr/bin/env python3
"""The models of tests/goldens/vision as llama.cpp has them: a language model in a GGUF file, and an mmproj file.

    build/oracle/bin/python tools/make_mmproj_goldens.py [NAME ...]

Writes tests/goldens/mmproj/NAME/: model.gguf and mmproj-model.gguf, in float32, of the checkpoint that
tools/make_vision_goldens.py has written, whose golden.json holds for them too. Tensors of the tower get their names from
the table of the `gguf` package; what converters do to their values is written here. Needs the oracle environment
(./dev setup --oracles).
"""

import json
import pathlib
import shutil
import sys
import types

import gguf
import numpy as np
import torch
import transformers as tf
from gguf.constants import VisionProjectorType

import gguf_blocks
import make_model_goldens

GOLDENS = pathlib.Path(__file__).resolve().parent.parent / "tests" / "goldens"
ARCHITECTURES = {"llava": "llama", "llava_next": "llama", "qwen2_vl": "qwen2vl", "qwen2_5_vl": "qwen2vl",
                 "qwen3_vl": "qwen3vl", "qwen3_5": "qwen35", "mistral3": "llama", "pixtral": "llama",
                 "gemma3": "gemma3", "smolvlm": "llama", "internvl": "qwen2", "gemma4": "gemma4",
                 "gemma4_moe": "gemma4"}
SUFFIXES = (".weight", ".bias", ".input_max", ".input_min", ".output_max", ".output_min")
# For these families, older converters swapped the names of the two layers of an MLP.
SWAPPED_MLPS = ("llava",)


def text_metadata(folder, config, arch):
    meta = make_model_goldens.gguf_metadata(config, arch, False)
    meta = {key: value for key, value in meta.items() if value is not None}
    rope = config.rope_parameters
    if "mrope_section" in rope:
        meta[f"{arch}.rope.dimension_sections"] = [*rope["mrope_section"], 0]
    if arch == "gemma3":
        meta["gemma3.attention.sliding_window_pattern"] = [kind == "sliding_attention" for kind in config.layer_types]
        meta["gemma3.rope.freq_base_swa"] = float(rope["sliding_attention"]["rope_theta"])
    if arch == "gemma4":
        meta["tokenizer.ggml.padding_token_id"] = config.pad_token_id
    own = (lambda text: text.replace("<image>", "<|image_pad|>")) if folder.name.startswith("qwen") else str
    tokenizer = json.loads(own((folder / "tokenizer.json").read_text()))
    vocab = tokenizer["model"]["vocab"]
    special = {token["id"] for token in tokenizer["added_tokens"]}
    meta["tokenizer.ggml.model"] = "gpt2"
    meta["tokenizer.ggml.pre"] = "gpt-2"
    meta["tokenizer.ggml.tokens"] = sorted(vocab, key=vocab.get)
    meta["tokenizer.ggml.token_type"] = [3 if i in special else 1 for i in range(len(vocab))]
    meta["tokenizer.ggml.bos_token_id"], meta["tokenizer.ggml.eos_token_id"] = 1, 2
    meta["tokenizer.ggml.add_bos_token"] = False
    meta["tokenizer.chat_template"] = json.loads(own((folder / "tokenizer_config.json").read_text()))["chat_template"]
    return meta


def write_text(folder, model, arch, path):
    config = model.config.get_text_config()
    language_model = getattr(model.model, "language_model", None) or model.model.text_model
    state = {f"model.{name}": value for name, value in language_model.state_dict().items()}
    state["lm_head.weight"] = model.lm_head.weight
    text = types.SimpleNamespace(config=config, state_dict=lambda: state)
    tensors = make_model_goldens.gguf_tensors(text, arch, False)
    stored = {name: make_model_goldens.gguf_tensor(value) for name, value in tensors.items()}
    gguf_blocks.write_gguf(path, text_metadata(folder, config, arch), stored)


def clip_metadata(name, config, processor, projector):
    """Returns the keys that all kinds have, and those of this kind."""
    vision = config.vision_config
    get = lambda *keys: next(getattr(vision, key) for key in keys if hasattr(vision, key))
    one = lambda value: value[0] if isinstance(value, (list, tuple)) else value
    side = get("image_size") if hasattr(vision, "image_size") else 560
    meta = {"general.architecture": "clip", "general.type": "mmproj", "clip.has_vision_encoder": True,
            "clip.projector_type": projector,
            "clip.vision.image_size": one(side), "clip.vision.patch_size": one(get("patch_size")),
            "clip.vision.embedding_length": get("embed_dim", "hidden_size"),
            "clip.vision.feed_forward_length": get("intermediate_size", "hidden_size"),
            "clip.vision.projection_dim": config.get_text_config().hidden_size,
            "clip.vision.block_count": get("depth", "num_hidden_layers"),
            "clip.vision.attention.head_count": get("num_heads", "num_attention_heads"),
            "clip.vision.attention.layer_norm_epsilon": float(getattr(vision, "layer_norm_eps", 1e-6)),
            "clip.vision.image_mean": list(processor["image_mean"]),
            "clip.vision.image_std": list(processor["image_std"])}
    return meta


def kind_metadata(name, config, processor):
    vision = config.vision_config
    if name.startswith("llava"):
        more = {"clip.has_llava_projector": True, "clip.vision.block_count": vision.num_hidden_layers - 1}
        if name == "llava_next":
            more["clip.vision.image_grid_pinpoints"] = [side for pair in config.image_grid_pinpoints for side in pair]
        return "mlp", more
    if name.startswith("qwen"):
        more = {"clip.vision.image_min_pixels": processor["size"]["shortest_edge"],
                "clip.vision.image_max_pixels": processor["size"]["longest_edge"]}
        if name == "qwen2_vl":
            return VisionProjectorType.QWEN2VL, more
        if name == "qwen2_5_vl":
            full = vision.fullatt_block_indexes
            return VisionProjectorType.QWEN25VL, more | {"clip.use_silu": True,
                                                         "clip.vision.n_wa_pattern": full[0] + 1,
                                                         "clip.vision.window_size": vision.window_size}
        taps = getattr(vision, "deepstack_visual_indexes", [])
        flags = [i in taps for i in range(vision.depth)]
        return VisionProjectorType.QWEN3VL, more | {
            "clip.use_gelu": True, "clip.vision.spatial_merge_size": vision.spatial_merge_size,
            "clip.vision.is_deepstack_layers": flags}
    if name in ("mistral3", "pixtral"):
        more = {"clip.use_silu": True, "clip.vision.attention.layer_norm_epsilon": 1e-5}
        if name == "mistral3":
            more["clip.vision.spatial_merge_size"] = config.spatial_merge_size
        return VisionProjectorType.PIXTRAL, more
    if name == "gemma3":
        scale = vision.image_size // vision.patch_size // int(config.mm_tokens_per_image ** 0.5)
        return VisionProjectorType.GEMMA3, {"clip.use_gelu": True, "clip.vision.projector.scale_factor": scale}
    if name.startswith("gemma4"):
        cell = processor["patch_size"] * processor["pooling_kernel_size"]
        return VisionProjectorType.GEMMA4V, {"clip.vision.image_max_pixels": processor["max_soft_tokens"] * cell ** 2}
    if name == "smolvlm":
        return VisionProjectorType.IDEFICS3, {"clip.use_gelu": True,
                                              "clip.vision.projector.scale_factor": config.scale_factor,
                                              "clip.vision.preproc_image_size": processor["size"]["longest_edge"]}
    return VisionProjectorType.INTERNVL, {"clip.use_gelu": True,
                                          "clip.vision.projector.scale_factor": int(1 / config.downsample_ratio),
                                          "clip.vision.preproc_max_tiles": processor["max_patches"]}


def pairs(value, heads):
    """Reorders the rows of each head from halves to pairs."""
    half = value.shape[0] // heads // 2
    return value.reshape(heads, 2, half, -1).swapaxes(1, 2).reshape(value.shape)


def tower_parts(name, key, value, vision):
    """Returns the (name as the converter looks it up, value) of each part of a tensor."""
    if name.startswith("qwen"):
        if ".qkv." in key and name != "qwen3_vl":  # newer converters do not split it for this one
            return [(key.replace("qkv", part), one) for part, one in zip("qkv", np.split(value, 3))]
        if key == "visual.patch_embed.proj.weight":
            return [("v.patch_embd.weight", value[:, :, 0]), ("v.patch_embd.weight.1", value[:, :, 1])]
        for stem, new in (("linear_fc1", "mm.0"), ("linear_fc2", "mm.2"), ("norm", "v.post_ln")):
            if key.startswith(f"visual.merger.{stem}."):
                return [(f"{new}.{key.rsplit('.', 1)[1]}", value)]
        if key.startswith("visual.deepstack_merger_list."):
            index, part, suffix = key.split(".")[2:]
            layer = vision.deepstack_visual_indexes[int(index)]
            return [(f"v.deepstack.{layer}.{part.replace('linear_', '')}.{suffix}", value)]
    if name in ("mistral3", "pixtral") and ("q_proj" in key or "k_proj" in key):
        value = pairs(value, vision.num_attention_heads)
    if name == "gemma3":
        key = key.replace("_weight", ".weight")
        value = value + 1 if "soft_emb_norm" in key else value
    if name.startswith("gemma4"):
        if key.endswith("patch_embedder.input_proj.weight"):  # as a convolution: channel by channel
            value = value.reshape(len(value), vision.patch_size, vision.patch_size, 3).transpose(0, 3, 1, 2)
        value = value.reshape(1) if value.ndim == 0 else value
        key = key.replace("vision_tower.encoder.", "vision_model.model.").replace(".linear.weight", ".weight")
        key += ".weight" if key.endswith("position_embedding_table") else ""
    if name == "internvl":
        for old, new in (("layer_norm", "mlp1.0"), ("linear_1", "mlp1.1"), ("linear_2", "mlp1.3")):
            key = key.replace(f"multi_modal_projector.{old}", new)
        if ".lambda_" in key or "position_embedding" in key:
            key += ".weight"
    if key == "image_newline":
        return [("model.image_newline", value)]
    if name.startswith("llava") and key.startswith("multi_modal_projector.linear_"):
        number, suffix = key.split("_")[-1].split(".")
        return [(f"mm.{0 if number == '1' else 2}.{suffix}", value)]
    return [(key, value)]


def table_name(table, key):
    """Returns the name of a tensor in the table of the `gguf` package, which has the names of many families."""
    if key.startswith(("v.", "mm.", "model.image_newline")):
        return key
    # Newer versions of transformers omit a part of the names.
    for known in (key, f"model.{key}", key.replace("vision_tower.", "vision_tower.vision_model.", 1),
                  key.replace("vision_model.", "model.vision_model.", 1)):
        if found := table.get_name(known, try_suffixes=SUFFIXES):
            return found
    raise KeyError(key)


def write_tower(name, folder, model, path):
    config = model.config
    processor = json.loads((folder / "preprocessor_config.json").read_text())
    projector, more = kind_metadata(name, config, processor)
    meta = clip_metadata(name, config, processor, projector) | more
    layers = meta["clip.vision.block_count"]
    table = gguf.get_tensor_name_map(gguf.MODEL_ARCH.MMPROJ, max(layers, 4))  # projectors count as layers, too
    tensors = {}
    for key, value in model.model.state_dict().items():
        if key.startswith(("language_model.", "text_model.")) or "position_ids" in key or "inv_freq" in key:
            continue
        value = value.detach().float().numpy()
        if f"encoder.layers.{layers}." in key:  # a layer behind the one whose states are used
            continue
        for part, one in tower_parts(name, key, value, config.vision_config):
            tensors[table_name(table, part)] = np.ascontiguousarray(one, np.float32)
    if name in SWAPPED_MLPS:
        swap = {"ffn_up": "ffn_down", "ffn_down": "ffn_up"}
        tensors = {".".join(swap.get(part, part) for part in key.split(".")): value for key, value in tensors.items()}
    stored = {key: ("F32", value.view(np.uint8) if value.ndim > 1 else value) for key, value in tensors.items()}
    gguf_blocks.write_gguf(path, meta, stored)


def main():
    for name in sys.argv[1:] or ARCHITECTURES:
        folder, out = GOLDENS / "vision" / name, GOLDENS / "mmproj" / name
        model = tf.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32)
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        write_text(folder, model, ARCHITECTURES[name], out / "model.gguf")
        write_tower(name, folder, model, out / "mmproj-model.gguf")
        print(f"{name}: {sum(f.stat().st_size for f in out.iterdir()) // 1024} KiB")


if __name__ == "__main__":
    main()
