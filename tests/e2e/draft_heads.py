"""Random drafters of hidden states for the built-in model, as files of their formats."""
import array
import json
import os
import random
import struct

from command import MODEL

with open(os.path.join(MODEL, "config.json")) as file:
    SERVED = json.load(file)


def write(folder, name, tensors, config):
    """Writes tensors: name -> shape for random floats, or name -> an array of integers."""
    os.makedirs(folder, exist_ok=True)
    header, parts, size = {}, [], 0
    draw = random.Random(1).gauss
    for key, value in tensors.items():
        if isinstance(value, array.array):
            data, kind, shape = value.tobytes(), "I64", [len(value)]
        else:
            count = 1
            for extent in value:
                count *= extent
            scale = 1.0 / value[-1] ** 0.5 if len(value) > 1 else 1.0
            data, kind, shape = array.array("f", (draw(0, 1) * scale for _ in range(count))).tobytes(), "F32", value
        header[key] = {"dtype": kind, "shape": shape, "data_offsets": [size, size + len(data)]}
        parts.append(data)
        size += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file)
    return folder


def layer(prefix, inputs):
    size, ffn = SERVED["hidden_size"], SERVED["intermediate_size"]
    dim = size // SERVED["num_attention_heads"]
    heads, kv = SERVED["num_attention_heads"] * dim, SERVED["num_key_value_heads"] * dim
    return {prefix + "self_attn.q_proj.weight": [heads, inputs], prefix + "self_attn.k_proj.weight": [kv, inputs],
            prefix + "self_attn.v_proj.weight": [kv, inputs], prefix + "self_attn.o_proj.weight": [size, heads],
            prefix + "post_attention_layernorm.weight": [size], prefix + "mlp.gate_proj.weight": [ffn, size],
            prefix + "mlp.up_proj.weight": [ffn, size], prefix + "mlp.down_proj.weight": [size, ffn]}


def medusa(folder):
    size, vocab = SERVED["hidden_size"], SERVED["vocab_size"]
    tensors = {}
    for k in range(3):
        tensors |= {f"{k}.0.linear.weight": [size, size], f"{k}.0.linear.bias": [size], f"{k}.1.weight": [vocab, size]}
    return write(folder, "medusa_lm_head.safetensors", tensors, {"medusa_num_heads": 3, "medusa_num_layers": 1})


def decoder():
    keys = ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "vocab_size",
            "max_position_embeddings", "rms_norm_eps")
    return {"model_type": "llama", "num_hidden_layers": 1, **{key: SERVED[key] for key in keys if key in SERVED}}


def eagle(folder):
    size = SERVED["hidden_size"]
    return write(folder, "model.safetensors", {"fc.weight": [size, 2 * size], **layer("layers.0.", size)}, decoder())


def eagle3(folder, **more):
    size, known = SERVED["hidden_size"], 500
    tensors = {"fc.weight": [size, 3 * size], "midlayer.input_layernorm.weight": [size],
               "midlayer.hidden_norm.weight": [size], "norm.weight": [size], "lm_head.weight": [known, size],
               "d2t": array.array("q", (3 * i for i in range(known))), **layer("midlayer.", 2 * size)}
    return write(folder, "model.safetensors", tensors,
                 {**decoder(), "architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": known, **more})
