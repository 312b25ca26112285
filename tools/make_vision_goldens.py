#!/usr/bin/env python3
"""Images, what Pillow and transformers make of them, and tiny random models that read them.

    build/oracle/bin/python tools/make_vision_goldens.py

Writes tests/goldens/vision/images/: image files, and golden.json with their pixels as Pillow decodes them, resized by
each filter, and prepared by transformers' processor of LLaVA. And tests/goldens/vision/NAME/ for each family:
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

import numpy as np
import torch
import transformers as tf
from PIL import Image
from transformers.models.llava.image_processing_pil_llava import LlavaImageProcessorPil

ROOT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "goldens" / "vision"
VOCAB = 160
PLACEHOLDER = 150
SIDE = 30
STEPS = 24
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
    golden = dict(decoded={}, resized=[], llava_pixels_base64={})
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
    golden["made_with"] = dict(transformers=tf.__version__)
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")
    print("images:", sum(f.stat().st_size for f in folder.iterdir()) // 1024, "KiB")


def llava():
    text = tf.LlamaConfig(vocab_size=VOCAB, hidden_size=32, intermediate_size=56, num_hidden_layers=3,
                          num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256, bos_token_id=1,
                          eos_token_id=2, pad_token_id=0)
    vision = tf.CLIPVisionConfig(hidden_size=24, intermediate_size=40, num_hidden_layers=4, num_attention_heads=3,
                                 image_size=SIDE, patch_size=6, projection_dim=16)
    return tf.LlavaConfig(text_config=text, vision_config=vision, image_token_index=PLACEHOLDER)


def randomize(model, seed):
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if "norm" in name or "layrnorm" in name:
            value = 0.3 * noise + (0.0 if name.endswith("bias") else 1.0)
        elif name.endswith("bias"):
            value = 0.3 * noise
        elif "position_embedding" in name or "class_embedding" in name:
            value = 0.5 * noise
        elif "embed_tokens" in name or "lm_head" in name:
            value = 0.9 * noise
        else:
            value = 1.3 * noise / math.sqrt(parameter[0].numel())
        with torch.no_grad():
            parameter.copy_(value)


@torch.no_grad()
def greedy(model, ids, pixels):
    ids, gap = list(ids), math.inf
    tokens = []
    for _ in range(STEPS):
        last = model(input_ids=torch.tensor([ids]), pixel_values=pixels, use_cache=False).logits[0, -1]
        best = torch.sort(last, descending=True).values
        gap = min(gap, float(best[0] - best[1]))
        tokens.append(int(torch.argmax(last)))
        ids.append(tokens[-1])
    return tokens, gap


TEMPLATE = ("{% for message in messages %}{{ message['role'] }}: {% for part in message['content'] %}"
            "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}{% endfor %}\n{% endfor %}"
            "{% if add_generation_prompt %}assistant: {% endif %}")


def write_tokenizer(folder):
    """Bytes of text one by one, below VOCAB: enough to ask a server something."""
    vocab = {"<pad>": 0, "<s>": 1, "</s>": 2}
    for i in range(95):
        symbol = chr(32 + i) if i > 0 else "\u0120"
        vocab[symbol] = 3 + i
    vocab["\u010a"] = 98
    vocab.update({f"<unused{i}>": i for i in range(99, VOCAB) if i != PLACEHOLDER})
    vocab["<image>"] = PLACEHOLDER
    special = [{"id": vocab[text], "content": text, "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False, "special": True} for text in ("<pad>", "<s>", "</s>", "<image>")]
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
         "chat_template": TEMPLATE}, indent=1) + "\n")


def write_model(name, config):
    folder = ROOT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    config._attn_implementation = "eager"
    model = tf.AutoModelForImageTextToText.from_config(config, attn_implementation="eager",
                                                       dtype=torch.float32).eval()
    processor = LlavaImageProcessorPil(size=dict(shortest_edge=SIDE), crop_size=dict(height=SIDE, width=SIDE))
    pictures = [scene(SIDE, SIDE, 11), scene(SIDE, SIDE, 12)]
    pixels = torch.tensor(np.stack([processor(images=p, return_tensors="np")["pixel_values"][0] for p in pictures]))
    count = (SIDE // 6) ** 2
    prompt = [1, 40, 41] + [PLACEHOLDER] * count + [50, 51, 52, 53, 54] + [PLACEHOLDER] * count + [60, 61]
    for seed in range(40):
        randomize(model, seed)
        tokens, gap = greedy(model, prompt, pixels)
        if gap >= MIN_GAP and len(set(tokens)) >= 8:
            break
    with torch.no_grad():
        features = model.get_image_features(pixel_values=pixels)
        features = getattr(features, "pooler_output", features)
        embeddings = torch.stack(list(features))
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    (folder / "preprocessor_config.json").write_text(json.dumps(
        dict(crop_size=dict(height=SIDE, width=SIDE), do_center_crop=True, do_convert_rgb=True, do_normalize=True,
             do_rescale=True, do_resize=True, image_mean=processor.image_mean, image_std=processor.image_std,
             image_processor_type="CLIPImageProcessor", resample=3, size=dict(shortest_edge=SIDE)), indent=1) + "\n")
    write_tokenizer(folder)
    golden = dict(prompt=prompt, tokens=tokens, min_gap=round(gap, 6), side=SIDE,
                  images_rgb_base64=[b64(np.asarray(p)) for p in pictures],
                  embeddings_f32_base64=[b64(e.numpy().astype("<f4")) for e in embeddings],
                  transformers=tf.__version__, torch=torch.__version__.split("+")[0])
    (folder / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")
    print(f"{name}: seed {seed} gap {gap:.4f} distinct {len(set(tokens))}",
          sum(f.stat().st_size for f in folder.iterdir()) // 1024, "KiB")


def main():
    write_images()
    write_model("llava", llava())


if __name__ == "__main__":
    main()
