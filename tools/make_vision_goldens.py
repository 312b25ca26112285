#!/usr/bin/env python3
"""Images, what Pillow and transformers make of them, and tiny random models that read them.

    build/oracle/bin/python tools/make_vision_goldens.py

Writes tests/goldens/vision/images/: image files, and golden.json with their pixels as Pillow decodes them, resized by
each filter, and prepared by transformers' processors of LLaVA, Qwen2-VL, Pixtral and others. And tests/goldens/vision/NAME/ for each family:
config.json, preprocessor_config.json, safetensors, a tokenizer with a chat template, and golden.json: pictures of the
model's size, the embeddings that its tower makes of them, and a prompt with images and its greedy continuation
(float32, eager attention). Needs the oracle environment (./dev setup --oracles).
"""

import base64
import io
import json
import math
import pathlib
import shutil
import sys

import numpy as np
import torch
import transformers as tf
from PIL import Image
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil
from transformers.models.gemma4 import image_processing_pil_gemma4
from transformers.models.gemma4.image_processing_pil_gemma4 import Gemma4ImageProcessorPil
from transformers.models.gemma4.processing_gemma4 import Gemma4Processor
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import (GotOcr2ImageProcessorPil,
                                                                         get_optimal_tiled_canvas)
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
from transformers.models.llava.image_processing_pil_llava import LlavaImageProcessorPil
from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil
from transformers.models.llava_next.modeling_llava_next import get_anyres_image_grid_shape
from transformers.models.llava_next.processing_llava_next import LlavaNextProcessor
from transformers.models.internvl.processing_internvl import InternVLProcessor
from transformers.models.mllama import image_processing_pil_mllama
from transformers.models.mllama.image_processing_pil_mllama import MllamaImageProcessorPil
from transformers.models.mllama.processing_mllama import (convert_sparse_cross_attention_mask_to_dense,
                                                           get_cross_attention_token_mask)
from transformers.models.pixtral.image_processing_pil_pixtral import PixtralImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil
from transformers.models.smolvlm.processing_smolvlm import get_image_prompt_string

ROOT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "goldens" / "vision"
VOCAB = 160
PLACEHOLDER, BREAK, END = 150, 154, 155
SIDE = 30
STEPS = 24
HALF = [0.5, 0.5, 0.5]
# For families that cut pictures into tiles: the side of a tile, embeddings along a side, and the most tiles.
TILE, CELLS, MOST_TILES = 16, 4, 6
SMOL_TILE = 18
# The most cells of Gemma 4's pictures, the side of a patch, and the patches along a cell. The processor accepts only larger
# numbers.
BUDGET, PATCH, POOLED = 12, 4, 3
image_processing_pil_gemma4._SUPPORTED_SOFT_TOKENS += (BUDGET, 20)
UNSAID = 8  # Llama 3.2 Vision's last tokens, of which the first stands for a picture
CANVAS_TILE, MOST_CANVAS_TILES = 12, 4
PINPOINTS = [[TILE * rows, TILE * columns] for rows, columns in ((1, 2), (2, 1), (2, 2), (3, 1), (1, 3))]
MIN_GAP = 2e-3

torch.set_num_threads(1)


def b64(array):
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def scene(width, height, seed):
    """Smooth colours with edges in them: what filters treat differently."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    random = np.random.default_rng(seed)
    channels = []
    for _ in range(3):
        a, b, c = random.uniform(0.05, 0.5, 3)
        value = 127 + 90 * np.sin(a * x + b * y) + 37 * ((x * c).astype(int) % 2)
        channels.append(value)
    return Image.fromarray(np.clip(np.stack(channels, -1), 0, 255).astype(np.uint8))


def images():
    """name -> (format, picture, options)"""
    wide, tall, small = scene(67, 41, 1), scene(40, 90, 2), scene(17, 23, 3)
    exif = Image.Exif()
    files = {
        "wide.png": (wide, {}),
        "tall.png": (tall, {}),
        "small.png": (small, {}),
        "gray.png": (wide.convert("L"), {}),
        "palette.png": (tall.convert("P", palette=Image.Palette.ADAPTIVE, colors=30), {}),
        "alpha.png": (Image.merge("RGBA", (*small.split(), small.convert("L"))), {}),
        "baseline.jpg": (wide, dict(quality=90)),
        "progressive.jpg": (tall, dict(quality=80, progressive=True)),
        "full_color.jpg": (small, dict(quality=95, subsampling=0)),
        "gray.jpg": (wide.convert("L"), dict(quality=90)),
        "lossy.webp": (wide, dict(quality=80)),
        "lossless.webp": (small, dict(lossless=True)),
    }
    for orientation in range(2, 9):
        exif[0x0112] = orientation
        files[f"turned_{orientation}.jpg"] = (small, dict(quality=95, subsampling=0, exif=exif.tobytes()))
    return files


def upright(image):
    from PIL import ImageOps
    return ImageOps.exif_transpose(image).convert("RGB")


def write_images():
    folder = ROOT / "images"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    golden = dict(decoded={}, resized=[], llava_pixels_base64={}, gemma_pixels_base64={}, qwen_pixels={},
                  pixtral_pixels={}, most_cells_pixels={}, tiles={}, layouts=layouts(), fits=fits(), crops=crop_counts())
    filters = dict(bicubic=Image.Resampling.BICUBIC, bilinear=Image.Resampling.BILINEAR,
                   lanczos=Image.Resampling.LANCZOS)
    processor = LlavaImageProcessorPil(size=dict(shortest_edge=SIDE), crop_size=dict(height=SIDE, width=SIDE))
    for name, (picture, options) in images().items():
        picture.save(folder / name, **options)
        image = upright(Image.open(folder / name))
        golden["decoded"][name] = dict(width=image.width, height=image.height, rgb_base64=b64(np.asarray(image)))
        if name not in ("wide.png", "tall.png", "small.png"):
            continue
        for filter_name, filter_value in filters.items():
            for width, height in ((SIDE, SIDE), (2 * image.width + 1, image.height), (9, 7), (image.width, 50)):
                resized = image.resize((width, height), filter_value)
                golden["resized"].append(dict(image=name, filter=filter_name, width=width, height=height,
                                              rgb_base64=b64(np.asarray(resized))))
        values = processor(images=image, return_tensors="np")["pixel_values"][0]
        mean, std = np.array(processor.image_mean), np.array(processor.image_std)
        pixels = (values.transpose(1, 2, 0) * std + mean) * 255
        golden["llava_pixels_base64"][name] = b64(np.round(pixels).astype(np.uint8))
        golden["gemma_pixels_base64"][name] = gemma_pixels(image)
        golden["tiles"][name] = [next_tiles(image), internvl_tiles(image), idefics_tiles(image), gemma_crops(image)]
        golden["pixtral_pixels"][name] = [pixtral_pixels(image, longest) for longest in (200, 48)]
        golden["most_cells_pixels"][name] = [most_cells_pixels(image, most) for most in (BUDGET, 20)]
        golden["qwen_pixels"][name] = [qwen_pixels(image, *bounds) for bounds in ((64, 1 << 20), (64, 1500), (9000, 1 << 20))]
    golden["made_with"] = dict(transformers=tf.__version__)
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")
    print("images:", sum(f.stat().st_size for f in folder.iterdir()) // 1024, "KiB")


def next_processor():
    size = dict(height=TILE, width=TILE)
    return LlavaNextImageProcessorPil(size=dict(shortest_edge=TILE), crop_size=size, image_grid_pinpoints=PINPOINTS)


def internvl_processor():
    return GotOcr2ImageProcessorPil(size=dict(height=TILE, width=TILE), crop_to_patches=True, max_patches=MOST_TILES)


def idefics_processor():
    return Idefics3ImageProcessorPil(size=dict(longest_edge=3 * TILE), max_image_size=dict(longest_edge=TILE))


def qwen_pixels(image, least, most):
    """The picture that the patches of Qwen2-VL's processor are cut from, in cells of 8 pixels."""
    processor = Qwen2VLImageProcessorPil(size=dict(shortest_edge=least, longest_edge=most), patch_size=4)
    out = processor(images=image, return_tensors="np")
    _, rows, columns = out["image_grid_thw"][0]
    cells = out["pixel_values"].reshape(rows // 2, columns // 2, 2, 2, 3, 2, 4, 4)[:, :, :, :, :, 0]
    values = cells.transpose(0, 2, 5, 1, 3, 6, 4).reshape(rows * 4, columns * 4, 3)
    pixels = (values * np.array(processor.image_std) + np.array(processor.image_mean)) * 255
    return dict(min_pixels=least, max_pixels=most, width=int(columns * 4), height=int(rows * 4),
                rgb_base64=b64(np.round(pixels).astype(np.uint8)))


def pixtral_pixels(image, longest):
    processor = PixtralImageProcessorPil(size=dict(longest_edge=longest), patch_size=dict(height=8, width=8))
    values = processor(images=image, return_tensors="np")["pixel_values"][0].transpose(1, 2, 0)
    pixels = (values * np.array(processor.image_std) + np.array(processor.image_mean)) * 255
    return dict(longest_edge=longest, width=values.shape[1], height=values.shape[0],
                rgb_base64=b64(np.round(pixels).astype(np.uint8)))


def gemma4_image_processor(budget=BUDGET):
    return Gemma4ImageProcessorPil(patch_size=PATCH, max_soft_tokens=budget, pooling_kernel_size=POOLED)


def most_cells_pixels(image, budget):
    made = gemma4_image_processor(budget)(images=image, return_tensors="np")
    places = made["image_position_ids"][0]
    columns, rows = places.max(axis=0) + 1
    patches = made["pixel_values"][0][:rows * columns].reshape(rows, columns, PATCH, PATCH, 3)
    pixels = patches.transpose(0, 2, 1, 3, 4).reshape(rows * PATCH, columns * PATCH, 3) * 255
    return dict(max_cells=budget, width=int(columns * PATCH), height=int(rows * PATCH),
                rgb_base64=b64(np.round(pixels).astype(np.uint8)))


def to_bytes(values, processor):
    """[..., 3, height, width] of a processor, brought back to 8 bits, channels last."""
    values = np.moveaxis(np.asarray(values), -3, -1)
    pixels = (values * np.array(processor.image_std) + np.array(processor.image_mean)) * 255
    return b64(np.round(pixels).astype(np.uint8))


def gemma_pixels(image):
    processor = Gemma3ImageProcessorPil(size=dict(height=SIDE, width=SIDE), image_mean=HALF, image_std=HALF)
    return to_bytes(processor(images=image, return_tensors="np")["pixel_values"][0], processor)


def next_tiles(image):
    processor = next_processor()
    values = processor(images=image, return_tensors="np")["pixel_values"][0]
    rows, columns = get_anyres_image_grid_shape([image.height, image.width], PINPOINTS, TILE)
    return dict(fit="best_grid", rows=rows, columns=columns, rgb_base64=to_bytes(values, processor))


def internvl_tiles(image):
    processor = internvl_processor()
    values = processor(images=image, return_tensors="np")["pixel_values"]
    columns, rows = get_optimal_tiled_canvas((image.height, image.width), (TILE, TILE), 1, MOST_TILES)
    if len(values) == 1:
        rows = columns = 0
    return dict(fit="nearest_ratio", rows=rows, columns=columns, rgb_base64=to_bytes(values, processor))


def idefics_tiles(image):
    processor = idefics_processor()
    out = processor(images=[[image]], return_tensors="np", return_row_col_info=True)
    return dict(fit="longest_edge", rows=out["rows"][0][0], columns=out["cols"][0][0],
                rgb_base64=to_bytes(out["pixel_values"][0], processor))


def pan_and_scan():
    return Gemma3ImageProcessorPil(size=dict(height=TILE, width=TILE), image_mean=HALF, image_std=HALF,
                                   do_pan_and_scan=True, pan_and_scan_min_crop_size=13, pan_and_scan_max_num_crops=3,
                                   pan_and_scan_min_ratio_to_activate=1.2)


def gemma_crops(image):
    processor = pan_and_scan()
    out = processor(images=image, return_tensors="np")
    count = int(out["num_crops"][0])
    rows, columns = (1, count) if image.width >= image.height else (count, 1)
    if count == 0:
        rows = columns = 0
    return dict(fit="crops", rows=rows, columns=columns, rgb_base64=to_bytes(out["pixel_values"], processor))


def crop_counts():
    """Of pictures of many sizes: [width, height, how many crops there are of it]."""
    random = np.random.default_rng(8)
    processor = pan_and_scan()
    found = []
    for _ in range(200):
        width, height = (int(2 ** value) for value in random.uniform(2, 9, 2))
        picture = Image.new("RGB", (width, height))
        found.append([width, height, int(processor(images=picture, return_tensors="np")["num_crops"][0])])
    return found


def fits():
    """Of pictures of many sizes: [width, height, of the largest picture of few cells, tiles down and across of the
    best canvas, width and height on it]."""
    random = np.random.default_rng(6)
    found = []
    for _ in range(300):
        width, height = (int(2 ** value) for value in random.uniform(2, 9, 2))
        if max(width, height) > 100 * min(width, height):
            continue
        cells = image_processing_pil_gemma4.get_aspect_ratio_preserving_size(
            height, width, PATCH, 20 * POOLED ** 2, POOLED)
        canvas = [int(side) for side in image_processing_pil_mllama.get_optimal_tiled_canvas(
            height, width, MOST_CANVAS_TILES, CANVAS_TILE)]
        fitted = image_processing_pil_mllama.get_image_size_fit_to_canvas(height, width, *canvas, CANVAS_TILE)
        found.append([width, height, int(cells[1]), int(cells[0]), *(side // CANVAS_TILE for side in canvas),
                      int(fitted[1]), int(fitted[0])])
    return found


def layouts():
    """Of pictures of many sizes: [width, height, rows and columns of the best grid, rows and columns of embeddings
    that are left of it, columns and rows of the nearest ratio]."""
    random = np.random.default_rng(5)
    processor = LlavaNextProcessor.__new__(LlavaNextProcessor)
    found = []
    for _ in range(300):
        width, height = (int(2 ** value) for value in random.uniform(2, 10, 2))
        if max(width, height) > 200 * min(width, height):
            continue
        rows, columns = get_anyres_image_grid_shape([height, width], PINPOINTS, TILE)
        left, breaks = processor._get_unpadded_features(height, width, CELLS, CELLS, rows, columns)
        ratio = get_optimal_tiled_canvas((height, width), (TILE, TILE), 1, MOST_TILES)
        found.append([width, height, rows, columns, breaks, left // max(breaks, 1), *ratio])
    return found


def llava():
    text = tf.LlamaConfig(vocab_size=VOCAB, hidden_size=32, intermediate_size=56, num_hidden_layers=3,
                          num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256, bos_token_id=1,
                          eos_token_id=2, pad_token_id=0)
    vision = tf.CLIPVisionConfig(hidden_size=24, intermediate_size=40, num_hidden_layers=4, num_attention_heads=3,
                                 image_size=SIDE, patch_size=6, projection_dim=16)
    return tf.LlavaConfig(text_config=text, vision_config=vision, image_token_index=PLACEHOLDER)


def text_fields(**fields):
    return dict(dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=56, num_hidden_layers=3,
                     num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256, bos_token_id=1,
                     eos_token_id=2, pad_token_id=0, tie_word_embeddings=False), **fields)


def sections(counts, **more):
    return dict(rope_type="default", rope_theta=1e4, mrope_section=counts, **more)


SPECIAL = dict(image_token_id=PLACEHOLDER, video_token_id=151, vision_start_token_id=152, vision_end_token_id=153,
               tie_word_embeddings=False)


def qwen2_vl():
    vision = dict(depth=3, embed_dim=24, hidden_size=32, mlp_ratio=2, num_heads=3, patch_size=4)
    return tf.Qwen2VLConfig(text_config=text_fields(rope_parameters=sections([2, 1, 1])), vision_config=vision,
                            **SPECIAL)


def qwen2_5_vl():
    """Windows of 2 x 2 cells, of which pictures of 5 x 3 cut some."""
    vision = dict(depth=4, hidden_size=24, intermediate_size=40, num_heads=3, patch_size=4, window_size=16,
                  out_hidden_size=32, fullatt_block_indexes=[1, 3])
    return tf.Qwen2_5_VLConfig(text_config=text_fields(rope_parameters=sections([1, 2, 1])), vision_config=vision,
                               **SPECIAL)


def qwen3_vision(**more):
    return dict(depth=4, hidden_size=24, intermediate_size=40, num_heads=3, patch_size=4, out_hidden_size=32,
                num_position_embeddings=16, **more)


def qwen3_vl():
    text = text_fields(head_dim=12, rope_parameters=sections([2, 2, 2], mrope_interleaved=True))
    return tf.Qwen3VLConfig(text_config=text, vision_config=qwen3_vision(deepstack_visual_indexes=[0, 2]), **SPECIAL)


def qwen3_5():
    text = text_fields(head_dim=32, layer_types=["linear_attention", "full_attention", "linear_attention"],
                       linear_conv_kernel_dim=4, linear_key_head_dim=8, linear_num_key_heads=2,
                       linear_num_value_heads=4, linear_value_head_dim=12,
                       rope_parameters=sections([2, 1, 1], mrope_interleaved=True, partial_rotary_factor=0.25))
    return tf.Qwen3_5Config(text_config=text, vision_config=qwen3_vision(), **SPECIAL)


def pixtral_vision():
    return dict(model_type="pixtral", hidden_size=24, intermediate_size=40, num_hidden_layers=3,
                num_attention_heads=3, patch_size=4, image_size=64, hidden_act="silu")


def mistral3():
    text = text_fields(model_type="mistral", rms_norm_eps=1e-5, head_dim=8, sliding_window=None)
    return tf.Mistral3Config(text_config=text, vision_config=pixtral_vision(), image_token_index=PLACEHOLDER,
                             spatial_merge_size=2, projector_hidden_act="gelu")


def pixtral():
    text = text_fields(model_type="mistral", rms_norm_eps=1e-5, head_dim=8, sliding_window=None)
    return tf.LlavaConfig(text_config=text, vision_config=pixtral_vision(), image_token_index=PLACEHOLDER,
                          vision_feature_layer=-1, vision_feature_select_strategy="full")


def siglip(image_size, patch_size, **more):
    return dict(hidden_size=24, intermediate_size=40, num_hidden_layers=3, num_attention_heads=3, image_size=image_size,
                patch_size=patch_size, **more)


def gemma3():
    """Cells of 2 x 2 patches, nine to a picture; every other layer has a window that cuts pictures."""
    text = text_fields(model_type="gemma3_text", head_dim=12, query_pre_attn_scalar=12, sliding_window=6,
                       layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                       rope_parameters=dict(full_attention=dict(rope_type="default", rope_theta=1e4),
                                            sliding_attention=dict(rope_type="default", rope_theta=1e3)))
    return tf.Gemma3Config(text_config=text, vision_config=siglip(24, 4, model_type="siglip_vision_model",
                                                                  vision_use_head=False),
                           mm_tokens_per_image=9, boi_token_index=151, eoi_token_index=152,
                           image_token_index=PLACEHOLDER, tie_word_embeddings=False)


def gemma4_text(**more):
    """Full layers have wider heads; the last one's window is not asked for."""
    return text_fields(model_type="gemma4_text", num_hidden_layers=4, head_dim=8, global_head_dim=16, sliding_window=6,
                       layer_types=["sliding_attention", "full_attention"] * 2, pad_token_id=5,
                       final_logit_softcapping=30.0, tie_word_embeddings=True, **more)


def gemma4_config(text, **tower):
    vision = dict(hidden_size=24, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4, head_dim=8,
                  num_key_value_heads=2, patch_size=PATCH, pooling_kernel_size=POOLED,
                  position_embedding_size=BUDGET * POOLED, **tower)
    return tf.Gemma4Config(text_config=text, vision_config=vision, audio_config=None, boi_token_id=151,
                           eoi_token_id=152, image_token_id=PLACEHOLDER, video_token_id=157, audio_token_id=158)


def gemma4():
    """As E2B and E4B are: inputs of each layer, shared keys and values, a tower whose products are clamped."""
    return gemma4_config(gemma4_text(hidden_size_per_layer_input=6, vocab_size_per_layer_input=VOCAB,
                                     num_kv_shared_layers=2), use_clipped_linears=True)


def gemma4_moe():
    """As 26B-A4B and 31B are: the tokens of a picture see each other in layers whose window cuts it, full layers'
    values are their keys, experts, cells that are moved and scaled."""
    return gemma4_config(gemma4_text(hidden_size_per_layer_input=0, use_bidirectional_attention="vision",
                                     attention_k_eq_v=True, num_global_key_value_heads=1, enable_moe_block=True,
                                     num_experts=5, top_k_experts=2, moe_intermediate_size=24), standardize=True)


def llava_next():
    text = text_fields(model_type="llama")
    vision = dict(model_type="clip_vision_model", hidden_size=24, intermediate_size=40, num_hidden_layers=4,
                  num_attention_heads=3, image_size=TILE, patch_size=TILE // CELLS, projection_dim=16)
    return tf.LlavaNextConfig(text_config=text, vision_config=vision, image_token_index=PLACEHOLDER,
                              image_grid_pinpoints=PINPOINTS)


def smolvlm():
    """Cells of 2 x 2 patches, four to a tile, of which two pixels each way are left out."""
    return tf.SmolVLMConfig(text_config=text_fields(model_type="llama"), scale_factor=2, image_token_id=PLACEHOLDER,
                            vision_config=siglip(SMOL_TILE, 4, model_type="smolvlm_vision"), tie_word_embeddings=False)


def internvl():
    vision = dict(model_type="internvl_vision", hidden_size=24, intermediate_size=40, num_hidden_layers=3,
                  num_attention_heads=3, image_size=[TILE, TILE], patch_size=[4, 4], attention_bias=True)
    return tf.InternVLConfig(text_config=text_fields(model_type="qwen2"), vision_config=vision,
                             image_token_id=PLACEHOLDER, image_seq_length=4, tie_word_embeddings=False)


def randomize(model, seed):
    generator = torch.Generator().manual_seed(seed)
    is_gemma4 = model.config.model_type == "gemma4"
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if is_gemma4 and name.endswith("q_norm.weight"):
            # In this family scores are not divided by the width of a head; its weights contain that factor.
            value = (0.3 * noise + 1.0) / math.sqrt(parameter.shape[0])
        elif is_gemma4 and name.endswith("scale"):
            value = 0.3 * noise + 1.0
        elif is_gemma4 and "embed_tokens" in name:
            value = 0.9 * noise / math.sqrt(parameter.shape[-1])  # embeddings are multiplied by this factor
        elif "norm" in name or "layrnorm" in name or "ln_q" in name:
            value = 0.3 * noise + (0.0 if name.endswith("bias") else 1.0)
        elif name.endswith("bias"):
            value = 0.3 * noise
        elif "A_log" in name or "dt_bias" in name:
            value = 0.5 * noise
        elif "pos" in name and "embed" in name or "class_embedding" in name:
            value = 0.5 * noise
        elif "embed_tokens" in name or "lm_head" in name:
            value = 0.9 * noise
        else:
            value = 1.3 * noise / math.sqrt(parameter[0].numel())
        with torch.no_grad():
            parameter.copy_(value)
    for name, buffer in model.named_buffers():
        noise = torch.randn(buffer.shape, generator=generator)
        value = buffer_value(name.rsplit(".", 1)[-1], noise)
        if value is not None:
            buffer.copy_(value)


def buffer_value(name, noise):
    """Of what checkpoints hold beside parameters; None: it is none of that."""
    if name in ("layer_scalar", "std_scale"):
        return 1 + 0.2 * noise
    if name == "std_bias":
        return 3 * noise
    if name in ("input_min", "output_min"):
        return -0.7 - 0.5 * noise.abs()
    if name in ("input_max", "output_max"):
        return 0.7 + 0.5 * noise.abs()
    return None


@torch.no_grad()
def greedy(model, ids, inputs):
    ids, gap = list(ids), math.inf
    tokens = []
    for _ in range(STEPS):
        if model.config.model_type == "gemma3":
            inputs["token_type_ids"] = torch.tensor([[int(i == PLACEHOLDER) for i in ids]])
        if "image_grid_thw" in inputs or model.config.model_type == "gemma4":
            inputs["mm_token_type_ids"] = torch.tensor([[int(i == PLACEHOLDER) for i in ids]])
        last = model(input_ids=torch.tensor([ids]), use_cache=False, **inputs).logits[0, -1]
        if int(torch.argmax(last)) == PLACEHOLDER:
            return tokens, 0.0
        best = torch.sort(last, descending=True).values
        gap = min(gap, float(best[0] - best[1]))
        tokens.append(int(torch.argmax(last)))
        ids.append(tokens[-1])
    return tokens, gap


TEMPLATE = ("{% for message in messages %}{{ message['role'] }}: {% for part in message['content'] %}"
            "{% if part['type'] == 'image' %}MARKER{% else %}{{ part['text'] }}{% endif %}{% endfor %}\n{% endfor %}"
            "{% if add_generation_prompt %}assistant: {% endif %}")


def write_tokenizer(folder, marker, special):
    """Bytes of text one by one, below VOCAB: enough to ask a server something. `special`: text -> id; a template
    writes `marker` for an image."""
    vocab = {"<pad>": 0, "<s>": 1, "</s>": 2}
    for i in range(95):
        symbol = chr(32 + i) if i > 0 else "\u0120"
        vocab[symbol] = 3 + i
    vocab["\u010a"] = 98
    vocab.update({f"<unused{i}>": i for i in range(99, VOCAB) if i not in special.values()})
    vocab.update(special)
    special = [{"id": vocab[text], "content": text, "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False, "special": True} for text in ("<pad>", "<s>", "</s>", *special)]
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None,
                 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                                   "use_regex": False},
                 "post_processor": None,
                 "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
                 "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                           "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                           "ignore_merges": False, "vocab": vocab, "merges": []}}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>",
         "chat_template": TEMPLATE.replace("MARKER", marker)}, indent=1) + "\n")


@torch.no_grad()
def embeddings_of(model, inputs):
    """[image] of [embeddings, width]: behind each embedding what is added to the first layers' outputs."""
    out = model.get_image_features(**inputs)
    main = getattr(out, "pooler_output", out)
    if "pixel_attention_mask" in inputs:  # all pictures of a prompt are processed as one
        main = main[0].chunk(inputs["pixel_values"].shape[1])
    added = getattr(out, "deepstack_features", None) or []
    counts = [len(image) for image in main]
    parts = [list(main)] + [list(layer if isinstance(layer, tuple) else torch.split(layer, counts)) for layer in added]
    return [torch.cat([part[i] for part in parts], -1) for i in range(len(counts))]


def write_model(name, config, processor, file, sizes, per_row=0):
    """`sizes`: of two pictures that take equally many tokens, as the processor leaves them. `per_row`: embeddings
    of a row, where a token stands behind each."""
    folder = ROOT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    config._attn_implementation = "eager"
    model = tf.AutoModelForImageTextToText.from_config(config, attn_implementation="eager",
                                                       dtype=torch.float32).eval()
    pictures = [scene(*size, seed) for size, seed in zip(sizes, (11, 12))]
    inputs = inputs_of(processor, pictures)
    randomize(model, 0)
    count = len(embeddings_of(model, inputs)[0])
    image = [PLACEHOLDER] * count
    if per_row:
        image = (([PLACEHOLDER] * per_row + [BREAK]) * (count // per_row))[:-1] + [END]
    prompt = [1, 40, 41] + image + [50, 51, 52, 53, 54] + image + [60, 61]
    for seed in range(60):
        randomize(model, seed)
        tokens, gap = greedy(model, prompt, dict(inputs))
        if gap >= MIN_GAP and len(set(tokens)) >= 8:
            break
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    (folder / "preprocessor_config.json").write_text(json.dumps(file, indent=1) + "\n")
    write_tokenizer(folder, *TEXTS.get(name, ("<image>", {"<image>": PLACEHOLDER})))
    golden = dict(prompt=prompt, tokens=tokens, min_gap=round(gap, 6),
                  images=[image_of(model, processor, p) for p in pictures], pictures=whole_pictures(name, model),
                  embeddings_f32_base64=[b64(e.numpy().astype("<f4")) for e in embeddings_of(model, inputs)],
                  transformers=tf.__version__, torch=torch.__version__.split("+")[0])
    (folder / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")
    print(f"{name}: seed {seed} gap {gap:.4f} distinct {len(set(tokens))}",
          sum(f.stat().st_size for f in folder.iterdir()) // 1024, "KiB")


def inputs_of(processor, pictures):
    nested = [pictures] if type(processor) in (Idefics3ImageProcessorPil, SmolVLMImageProcessorPil) else pictures
    made = processor(images=nested, return_tensors="pt")
    unread = ("num_crops", "num_patches", "rows", "cols", "num_soft_tokens_per_image")
    return {key: value for key, value in made.items() if key not in unread}


def image_of(model, processor, picture):
    """A picture as the model takes it; of tiles that become one item, one below the other, with the order of their
    embeddings."""
    if model.config.model_type != "llava_next":
        return dict(width=picture.width, height=picture.height, rgb_base64=b64(np.asarray(picture)))
    tiles = processor(images=picture, return_tensors="np")["pixel_values"][0]
    numbers = torch.arange(len(tiles) * CELLS ** 2, dtype=torch.float32).reshape(len(tiles), CELLS ** 2, 1)
    order, _ = model.model.pack_image_features([numbers], [(picture.height, picture.width)], "default",
                                               torch.tensor([-1.0]))
    return dict(width=TILE, height=TILE * len(tiles), rgb_base64=to_bytes(tiles, processor),
                order=[int(number) for number in order[0].flatten()])


def text_of(name, image):
    """What stands for an image in the prompt, with one token for each tile."""
    if name == "smolvlm":
        out = smol_processor()(images=[[image]], return_tensors="np", return_row_col_info=True)
        return get_image_prompt_string(out["rows"][0][0], out["cols"][0][0], 1, "<fake_token_around_image>", "<image>",
                                       "<global-img>")
    if name == "internvl":
        processor = InternVLProcessor.__new__(InternVLProcessor)
        processor.start_image_token, processor.end_image_token = "<img>", "</img>"
        processor.image_token, processor.image_seq_length = "<IMG_CONTEXT>", 1
        number = internvl_processor()(images=image, return_tensors="np")["num_patches"]
        return processor.replace_image_token(dict(num_patches=number), 0)
    if name.startswith("gemma4"):
        processor = Gemma4Processor.__new__(Gemma4Processor)
        processor.boi_token, processor.image_token, processor.eoi_token = "<|image>", "<|image|>", "<image|>"
        return processor.replace_image_token(dict(num_soft_tokens_per_image=[1]), 0)
    return "\n\n<start_of_image><image_soft_token><end_of_image>\n\n" if name == "gemma3" else ""


def whole_pictures(name, model):
    """Image files, from their pixels to embeddings and the prompt's text, by the processor whose file is written."""
    if name not in FILES:
        return []
    found = []
    for image in ("wide.png", "tall.png", "small.png"):
        picture = upright(Image.open(ROOT / "images" / image))
        embeddings = embeddings_of(model, inputs_of(FILES[name](), [picture]))
        found.append(dict(image=image, text=text_of(name, picture),
                          embeddings_f32_base64=b64(torch.cat(embeddings).numpy().astype("<f4"))))
    return found


def mllama():
    """Layers 1 and 3 of the language model look at pictures."""
    text = text_fields(model_type="mllama_text_model", num_hidden_layers=4, cross_attention_layers=[1, 3])
    text["vocab_size"] -= UNSAID
    vision = dict(hidden_size=24, intermediate_size=40, num_hidden_layers=3, num_global_layers=2, attention_heads=3,
                  image_size=CANVAS_TILE, patch_size=PATCH, max_num_tiles=MOST_CANVAS_TILES,
                  intermediate_layers_indices=[0, 2], vision_output_dim=3 * 24)
    return tf.MllamaConfig(text_config=text, vision_config=vision, image_token_index=VOCAB - UNSAID,
                           tie_word_embeddings=False)


def mllama_processor():
    return MllamaImageProcessorPil(size=dict(height=CANVAS_TILE, width=CANVAS_TILE), image_mean=HALF, image_std=HALF,
                                   max_image_tiles=MOST_CANVAS_TILES)


def mllama_inputs(picture):
    made = mllama_processor()(images=[[picture]], return_tensors="pt")
    return {key: value for key, value in made.items() if key != "num_tiles"}, made["num_tiles"]


@torch.no_grad()
def canvas_of(model, picture):
    """The canvas that a picture is put on, and the rows that the language model looks at."""
    inputs, num_tiles = mllama_inputs(picture)
    tiles = np.asarray(inputs["pixel_values"])[0, 0, :num_tiles[0][0]]
    grids = [(rows, columns) for rows in range(1, 5) for columns in range(1, 5) if rows * columns <= MOST_CANVAS_TILES]
    rows, columns = grids[int(inputs["aspect_ratio_ids"][0, 0]) - 1]
    canvas = tiles.reshape(rows, columns, 3, CANVAS_TILE, CANVAS_TILE).transpose(2, 0, 3, 1, 4)
    canvas = canvas.reshape(3, rows * CANVAS_TILE, columns * CANVAS_TILE)
    states = model.model.multi_modal_projector(model.model.vision_model(**inputs).last_hidden_state)
    return dict(width=columns * CANVAS_TILE, height=rows * CANVAS_TILE,
                rgb_base64=to_bytes(canvas, mllama_processor()),
                rows_f32_base64=b64(states.flatten(0, 3).numpy().astype("<f4")))


@torch.no_grad()
def mllama_greedy(model, prompt, picture):
    """Tokens before the picture's look at all there is, also at tiles that are of nothing: as transformers has it."""
    inputs, num_tiles = mllama_inputs(picture) if picture else ({}, None)
    ids, gap = list(prompt), math.inf
    for _ in range(STEPS):
        if picture:
            spans = [get_cross_attention_token_mask(ids, VOCAB - UNSAID)]
            inputs["cross_attention_mask"] = torch.tensor(convert_sparse_cross_attention_mask_to_dense(
                spans, num_tiles, MOST_CANVAS_TILES, len(ids)))
        last = model(input_ids=torch.tensor([ids]), use_cache=False, **inputs).logits[0, -1]
        best = torch.sort(last, descending=True).values
        gap = min(gap, float(best[0] - best[1]))
        ids.append(int(torch.argmax(last)))
    return ids[len(prompt):], gap


def write_mllama():
    folder = ROOT / "mllama"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    config = mllama()
    model = tf.MllamaForConditionalGeneration._from_config(config, attn_implementation="eager",
                                                           dtype=torch.float32).eval()
    pictures = [scene(10, 9, 11), scene(30, 14, 12), scene(40, 41, 13)]
    image = VOCAB - UNSAID
    prompts = [[1, 40, 41, 42, image, 50, 51, 52, 53], [image, 1, 44, 45, 46], [1, 40, 41, 42, 50, 51, 52, 53]]
    cases = [(prompts[0], 0), (prompts[0], 1), (prompts[1], 1), (prompts[0], 2), (prompts[2], None)]
    for seed in range(60):
        randomize(model, seed)
        found = [mllama_greedy(model, prompt, None if index is None else pictures[index]) for prompt, index in cases]
        gap = min(gap for _, gap in found)
        if gap >= MIN_GAP and all(len(set(tokens)) >= 6 for tokens, _ in found):
            break
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    size = dict(height=CANVAS_TILE, width=CANVAS_TILE)
    file = fields_of(mllama_processor(), size=size, do_pad=True, max_image_tiles=MOST_CANVAS_TILES,
                     image_processor_type="MllamaImageProcessor")
    (folder / "preprocessor_config.json").write_text(json.dumps(file, indent=1) + "\n")
    write_tokenizer(folder, "<|image|>", {"<|image|>": image})
    files = [dict(image=name, **canvas_of(model, upright(Image.open(ROOT / "images" / name))))
             for name in ("wide.png", "tall.png", "small.png")]
    golden = dict(images=[canvas_of(model, picture) for picture in pictures], pictures=files, min_gap=round(gap, 6),
                  requests=[dict(prompt=prompt, image=index, tokens=tokens)
                            for (prompt, index), (tokens, _) in zip(cases, found)],
                  transformers=tf.__version__, torch=torch.__version__.split("+")[0])
    (folder / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")
    print(f"mllama: seed {seed} gap {gap:.4f}", sum(f.stat().st_size for f in folder.iterdir()) // 1024, "KiB")


def fields_of(processor, **fields):
    return dict(fields, do_resize=True, do_rescale=True, do_normalize=True, do_convert_rgb=True,
                resample=int(processor.resample), image_mean=list(processor.image_mean),
                image_std=list(processor.image_std))


def llava_next_processor():
    size = dict(height=TILE, width=TILE)
    file = fields_of(next_processor(), size=dict(shortest_edge=TILE), crop_size=size, do_center_crop=True, do_pad=True,
                     image_grid_pinpoints=PINPOINTS, image_processor_type="LlavaNextImageProcessor")
    return next_processor(), file, [(2 * TILE, TILE - 6)] * 2


def smol_processor():
    return SmolVLMImageProcessorPil(size=dict(longest_edge=3 * SMOL_TILE), max_image_size=dict(longest_edge=SMOL_TILE))


def smolvlm_processor():
    uncut = Idefics3ImageProcessorPil(size=dict(longest_edge=SMOL_TILE), max_image_size=dict(longest_edge=SMOL_TILE))
    file = fields_of(smol_processor(), size=dict(longest_edge=3 * SMOL_TILE), do_image_splitting=True, do_pad=True,
                     max_image_size=dict(longest_edge=SMOL_TILE), image_processor_type="SmolVLMImageProcessor")
    return uncut, file, [(SMOL_TILE, SMOL_TILE)] * 2


def internvl_model_processor():
    file = fields_of(internvl_processor(), size=dict(height=TILE, width=TILE), crop_to_patches=True, min_patches=1,
                     max_patches=MOST_TILES, image_processor_type="GotOcr2ImageProcessorFast")
    return internvl_processor(), file, [(TILE, TILE)] * 2


def llava_processor():
    processor = LlavaImageProcessorPil(size=dict(shortest_edge=SIDE), crop_size=dict(height=SIDE, width=SIDE))
    file = dict(crop_size=dict(height=SIDE, width=SIDE), do_center_crop=True, do_convert_rgb=True, do_normalize=True,
                do_rescale=True, do_resize=True, image_mean=processor.image_mean, image_std=processor.image_std,
                image_processor_type="CLIPImageProcessor", resample=3, size=dict(shortest_edge=SIDE))
    return processor, file, [(SIDE, SIDE)] * 2


def gemma3_processor():
    size = dict(height=24, width=24)
    processor = Gemma3ImageProcessorPil(size=size, image_mean=HALF, image_std=HALF)
    file = dict(size=size, do_resize=True, do_rescale=True, do_normalize=True, do_convert_rgb=None, resample=2,
                do_pan_and_scan=None, image_processor_type="Gemma3ImageProcessor", image_mean=HALF, image_std=HALF,
                image_seq_length=9)
    return processor, file, [(24, 24)] * 2


def gemma4_processor():
    processor = gemma4_image_processor()
    file = dict(do_convert_rgb=True, do_normalize=False, do_rescale=True, do_resize=True, image_mean=[0.0] * 3,
                image_std=[1.0] * 3, image_processor_type="Gemma4ImageProcessor", max_soft_tokens=BUDGET,
                patch_size=PATCH, pooling_kernel_size=POOLED, resample=3, rescale_factor=1 / 255)
    return processor, file, [(48, 36), (36, 48)]


def qwen_processor(**more):
    fields = dict(patch_size=4, merge_size=2, temporal_patch_size=2, size=dict(shortest_edge=64, longest_edge=4096),
                  **more)
    file = dict(fields, do_resize=True, do_rescale=True, do_normalize=True, do_convert_rgb=True, resample=3,
                image_processor_type="Qwen2VLImageProcessor")
    processor = Qwen2VLImageProcessorPil(**fields)
    file.update(image_mean=list(processor.image_mean), image_std=list(processor.image_std))
    return processor, file, [(40, 24), (24, 40)]


def pixtral_processor(cell):
    fields = dict(size=dict(longest_edge=64), patch_size=dict(height=cell, width=cell))
    processor = PixtralImageProcessorPil(**fields)
    file = dict(fields, patch_size=4, do_resize=True, do_rescale=True, do_normalize=True, do_convert_rgb=True,
                resample=3, image_processor_type="PixtralImageProcessor", image_mean=list(processor.image_mean),
                image_std=list(processor.image_std))
    return processor, file, [(40, 24) if cell == 8 else (20, 12)] * 2, 5


ROWS = ("[IMG]", {"[IMG]": PLACEHOLDER, "[IMG_BREAK]": BREAK, "[IMG_END]": END})
GEMMA = ("<start_of_image>", {"<image_soft_token>": PLACEHOLDER, "<start_of_image>": 151, "<end_of_image>": 152})
GEMMA4 = ("<|image|>", {"<|image|>": PLACEHOLDER, "<|image>": 151, "<image|>": 152})
SMOL = ("<image>", {"<image>": PLACEHOLDER, "<fake_token_around_image>": 151, "<global-img>": 152,
                    "<row_1_col_1>": 153})
INTERN = ("<IMG_CONTEXT>", {"<IMG_CONTEXT>": PLACEHOLDER, "<img>": 151, "</img>": 152})
TEXTS = {"mistral3": ROWS, "pixtral": ROWS, "gemma3": GEMMA, "gemma4": GEMMA4, "gemma4_moe": GEMMA4,
         "smolvlm": SMOL, "internvl": INTERN}
# The processors whose files are written, for families whose pictures are tested from their pixels on.
FILES = {"gemma3": lambda: gemma3_processor()[0], "gemma4": gemma4_image_processor,
         "gemma4_moe": gemma4_image_processor, "llava_next": next_processor, "smolvlm": smol_processor,
         "internvl": internvl_processor}
MODELS = {
    "llava": (llava, llava_processor),
    "qwen2_vl": (qwen2_vl, qwen_processor),
    "qwen2_5_vl": (qwen2_5_vl, qwen_processor),
    "qwen3_vl": (qwen3_vl, lambda: qwen_processor(image_mean=HALF, image_std=HALF)),
    "mistral3": (mistral3, lambda: pixtral_processor(8)),
    "pixtral": (pixtral, lambda: pixtral_processor(4)),
    "gemma3": (gemma3, gemma3_processor),
    "gemma4": (gemma4, gemma4_processor),
    "gemma4_moe": (gemma4_moe, gemma4_processor),
    "llava_next": (llava_next, llava_next_processor),
    "smolvlm": (smolvlm, smolvlm_processor),
    "internvl": (internvl, internvl_model_processor),
    "qwen3_5": (qwen3_5, lambda: qwen_processor(image_mean=HALF, image_std=HALF)),
}


def main():
    """With names: those models alone, "images" among them."""
    names = sys.argv[1:] or ["images", *MODELS, "mllama"]
    for name in names:
        if name in ("images", "mllama"):
            write_images() if name == "images" else write_mllama()
            continue
        config, processor = MODELS[name]
        write_model(name, config(), *processor())


if __name__ == "__main__":
    main()
