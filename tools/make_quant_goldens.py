#!/usr/bin/env python3
"""Tiny random quantized models of several families and formats, and what transformers computes with them.

    build/oracle/bin/python tools/make_quant_goldens.py [NAME ...]

Writes tests/goldens/quant_models/NAME/: config.json with its quantization_config and model.safetensors, or model.gguf, in
the layout of the format (tools/quant_layouts.py, tools/gguf_blocks.py), and golden.json as tools/make_model_goldens.py
does. The oracle is the float32 model with the dequantized weights; int8 layers made for int8 activations round their
inputs per token as Quire does.
"""

import base64
import json
import pathlib
import shutil
import sys
import tempfile

import numpy as np
import safetensors.torch
import torch
import transformers as tf

import expert_models
import gguf_blocks
import latent_models
import make_model_goldens as plain
import quant_layouts as layouts
from make_quant_vectors import compressed, gptq

ROOT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "goldens" / "quant_models"
DYNAMIC = dict(num_bits=8, type="int", dynamic=True, symmetric=True, strategy="token")
GROUP = 32


def families(name):
    """Returns configurations whose widths are all multiples of 32, the smallest group."""
    common = plain.common(hidden_size=64, intermediate_size=96, num_hidden_layers=1)
    rope = plain.rope()
    return {
        "llama": lambda: tf.LlamaConfig(**common, **rope),
        "wide_llama": lambda: tf.LlamaConfig(**dict(common, intermediate_size=176), **rope),
        "qwen2": lambda: tf.Qwen2Config(**dict(common, tie_word_embeddings=True), **rope),
        "qwen3": lambda: tf.Qwen3Config(**dict(common, head_dim=16), **rope),
        "phi3": lambda: tf.Phi3Config(**common, sliding_window=None, **rope),
        "qwen3_moe": lambda: tf.Qwen3MoeConfig(**dict(common, head_dim=16), num_experts=4, num_experts_per_tok=2,
                                               moe_intermediate_size=32, norm_topk_prob=True, **rope),
        "gpt_oss": lambda: tf.GptOssConfig(**dict(common, head_dim=16, intermediate_size=32), num_local_experts=4,
                                           num_experts_per_tok=2, sliding_window=8, swiglu_limit=0.5,
                                           layer_types=["sliding_attention"], **rope),
        "gemma2": lambda: tf.Gemma2Config(**dict(common, head_dim=16, sliding_window=12, query_pre_attn_scalar=16,
                                                 tie_word_embeddings=True), **rope),
        "bitnet": lambda: tf.BitNetConfig(**common, **rope),
    }[name]()


def gguf_family(name, width):
    """Returns a configuration with widths that are multiples of 256, as K-quants need; few rows keep the file small."""
    common = plain.common(hidden_size=width, intermediate_size=width, num_hidden_layers=1, num_attention_heads=2,
                          num_key_value_heads=1, head_dim=32)
    rope = plain.rope()
    return {
        "gpt2": lambda: tf.GPT2Config(vocab_size=plain.VOCAB, n_embd=width, n_layer=1, n_head=2, n_positions=128,
                                      bos_token_id=1, eos_token_id=2),
        "llama": lambda: tf.LlamaConfig(**common, **rope),
        "qwen2": lambda: tf.Qwen2Config(**dict(common, tie_word_embeddings=True), **rope),
        "gemma2": lambda: tf.Gemma2Config(**dict(common, sliding_window=12, query_pre_attn_scalar=32,
                                                 tie_word_embeddings=True), **rope),
    }[name]()


def is_linear(name, tensor):
    return (tensor.ndim == 2 and name.endswith(".weight") and "embed" not in name and "lm_head" not in name
            and not expert_models.is_router(name))


def schemes(rng):
    """name -> (families, quantization_config, function of a module's name and weights)."""
    awq = dict(quant_method="awq", bits=4, group_size=GROUP, zero_point=True, version="gemm",
               modules_to_not_convert=None)
    pack = lambda **more: compressed("pack-quantized", group=GROUP, **more)
    floats = lambda **more: compressed("float-quantized", bits=8, kind="float", **more)

    def mixed(name, w):
        if "down_proj" in name or "v_proj" in name:
            return layouts.pack_quantized(w, 8, GROUP, True)
        return layouts.pack_quantized(w, 4, GROUP, True)

    mixed_config = compressed("pack-quantized", group=GROUP)
    eight = json.loads(json.dumps(mixed_config["config_groups"]["group_0"]))
    eight["weights"]["num_bits"] = 8
    eight["targets"] = ["re:.*down_proj$", "re:.*self_attn\\.v_proj$"]
    mixed_config["config_groups"]["group_1"] = eight
    return {
        "awq": (["llama", "qwen2", "phi3", "qwen3_moe"], awq, lambda n, w: layouts.awq(w, GROUP)),
        "gptq": (["llama", "qwen2", "qwen3"], gptq(4, GROUP, True), lambda n, w: layouts.gptq(w, 4, GROUP, True)),
        "gptq_order": (["llama"], gptq(4, GROUP, False, True),
                       lambda n, w: layouts.gptq(w, 4, GROUP, False, act_order=True, rng=rng)),
        "gptq3": (["phi3"], gptq(3, GROUP, True, fmt="gptq_v2"),
                  lambda n, w: layouts.gptq(w, 3, GROUP, True, v2=True)),
        "gptq8": (["gemma2"], gptq(8, -1, True), lambda n, w: layouts.gptq(w, 8, -1, True)),
        "packed": (["llama", "qwen3", "gemma2", "qwen3_moe"], pack(), lambda n, w: layouts.pack_quantized(w, 4, GROUP, True)),
        "packed_asym": (["qwen2"], pack(symmetric=False), lambda n, w: layouts.pack_quantized(w, 4, GROUP, False)),
        "packed_mixed": (["llama"], mixed_config, mixed),
        "int8": (["llama", "qwen2", "phi3"], compressed("int-quantized", bits=8, strategy="channel",
                                                        activations=DYNAMIC), lambda n, w: layouts.int8(w)),
        "int8_weights": (["qwen3"], compressed("int-quantized", bits=8, strategy="channel"),
                         lambda n, w: layouts.int8(w)),
        "fp8": (["llama"], floats(strategy="channel"), lambda n, w: layouts.fp8(w, "channel")),
        "fp8_block": (["qwen3", "phi3", "qwen3_moe"], dict(quant_method="fp8", activation_scheme="dynamic",
                                              weight_block_size=[GROUP, GROUP]),
                      lambda n, w: layouts.fp8(w, (GROUP, GROUP), scale_name="weight_scale_inv")),
        # As in published files, which were made for activations in groups of 128, too; rows of down_proj have two groups.
        "fp8_block_128": (["wide_llama"], dict(quant_method="fp8", activation_scheme="dynamic",
                                               weight_block_size=[128, 128]),
                          lambda n, w: layouts.fp8(w, (128, 128), scale_name="weight_scale_inv")),
        "fp8_tensor": (["gemma2"], floats(strategy="tensor"), lambda n, w: layouts.fp8(w, None)),
        "nvfp4": (["llama"], compressed("nvfp4-pack-quantized", bits=4, kind="float", strategy="tensor_group", group=16),
                  lambda n, w: layouts.nvfp4(w)),
        "nvfp4_modelopt": (["qwen2"], dict(quant_method="modelopt", quant_algo="NVFP4", group_size=16),
                           lambda n, w: layouts.nvfp4(w, modelopt=True)),
        "mxfp4": (["qwen3"], compressed("mxfp4-pack-quantized", bits=4, kind="float", group=GROUP),
                  lambda n, w: layouts.mx(w, 4)),
        "bitnet": (["bitnet"], dict(quant_method="bitnet", linear_class="autobitlinear", quantization_mode="offline"),
                   lambda n, w: layouts.bitnet(w)),
        "bitnet_divided": (["llama"], dict(quant_method="bitnet", linear_class="bitlinear", quantization_mode="offline"),
                           lambda n, w: layouts.bitnet(w, divides=True)),
        "mxfp8": (["phi3"], compressed("mxfp8-quantized", bits=8, kind="float", group=GROUP),
                  lambda n, w: layouts.mx(w, 8)),
    }


GGUF_MIXES = {
    # Like "Q4_K_M": a base type, and better types for some tensors. Widths that are no multiple of 256 use another type.
    "q4_k_m": dict(base="Q4_K", attn_v="Q6_K", ffn_down="Q6_K", token_embd="Q6_K", output="Q6_K", attn_output="Q5_0"),
    "k_mix": dict(base="Q5_K", attn_q="Q2_K", attn_k="Q3_K", attn_v="IQ4_XS", ffn_gate="Q3_K", ffn_up="Q5_K",
                  token_embd="Q4_K", output="Q6_K", attn_output="Q4_1"),
    "simple_mix": dict(base="Q8_0", attn_q="Q4_0", attn_k="Q4_1", attn_v="Q5_0", attn_output="Q5_1",
                       ffn_gate="IQ4_NL", ffn_up="Q4_0", token_embd="Q8_0", output="F16"),
    # The types are mixed as in dynamic quantizations.
    "grid_mix": dict(base="IQ2_S", attn_q="IQ3_XXS", attn_k="IQ2_XS", attn_v="IQ4_XS", ffn_gate="IQ2_XXS", ffn_up="IQ1_M",
                     ffn_down="IQ3_S", token_embd="IQ3_S", output="Q6_K", attn_output="Q4_1"),
}


def round_inputs(module, inputs):
    """Rounds each token to int8 and back: the scale is max|x| / 127, ties go to even."""
    x = inputs[0]
    scale = x.abs().amax(-1, keepdim=True) / 127
    return (torch.where(scale > 0, torch.round(x / torch.where(scale > 0, scale, 1.0)) * scale, 0.0),)


def search(model, prepare, activations):
    """Returns a seed whose logits differ clearly, with its logits and tokens, like plain.make()."""
    hooks = [module.register_forward_pre_hook(round_inputs) for name, module in model.named_modules()
             if activations and isinstance(module, torch.nn.Linear) and "lm_head" not in name]
    prompt = torch.randint(3, plain.VOCAB, (plain.PROMPT,), generator=torch.Generator().manual_seed(7)).tolist()
    best = None
    for seed in range(12):
        plain.randomize(model, seed, torch.bfloat16)
        if model.config.tie_word_embeddings:
            # The values are wider than in the plain goldens, so that the last token's own logit does not exceed all others.
            embedding = model.get_input_embeddings().weight
            embedding.copy_((embedding * (24 / model.config.hidden_size) ** 0.5).bfloat16())
        kept = prepare()
        with expert_models.RouterGaps() as routers:
            rows, tokens, gap = plain.run(model, prompt, False)
        if routers.smallest < expert_models.MIN_ROUTER_GAP:
            continue
        score = min(gap, plain.MIN_GAP) * len(set(tokens))
        if best is None or score > best[0]:
            best = (score, seed, rows, tokens, gap, kept)
        if gap >= plain.MIN_GAP and len(set(tokens)) >= 12:
            break
    for hook in hooks:
        hook.remove()
    return prompt, *best[1:]


def write_golden(folder, prompt, rows, tokens, gap):
    chosen = sorted({0, 1, 7, 13, 31, 32, 40, plain.PROMPT - 1})
    logits = rows[chosen].contiguous().numpy().astype("<f4")
    golden = dict(prompt=prompt, tokens=tokens, min_gap=round(gap, 6), rows=chosen,
                  logits_f32_base64=base64.b64encode(logits.tobytes()).decode(), max_model_len=0,
                  transformers=tf.__version__, torch=torch.__version__.split("+")[0])
    (folder / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")


def new_model(config, options={}):
    config._attn_implementation = "eager"
    model = tf.AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32)
    if "reshape" in options:
        options["reshape"](model)
    return model.eval()


def make(name, family, config, quantize):
    model = new_model(families(family))

    def prepare():
        """Quantizes in place, and returns the tensors of the checkpoint."""
        stored = {}
        for key, tensor in expert_models.apart(model.state_dict()):
            if key == "lm_head.weight" and model.config.tie_word_embeddings:
                continue
            if not is_linear(key, tensor):
                stored[key] = tensor.to(torch.bfloat16).clone()
                continue
            module = key.removesuffix(".weight")
            tensors, exact = quantize(module, tensor.numpy().astype(np.float32))
            stored.update({f"{module}.{suffix}": value.contiguous() for suffix, value in tensors.items()})
            tensor.copy_(torch.from_numpy(np.ascontiguousarray(exact)))
        return stored

    groups = config.get("config_groups", {}).values()
    activations = any(group.get("input_activations") for group in groups)
    save(name, model, config, search(model, prepare, activations))


def save(name, model, config, found, options={}):
    """Writes a checkpoint of the tensors that search() found, with its golden."""
    prompt, seed, rows, tokens, gap, stored = found
    folder = fresh_folder(name)
    model.config.dtype = "bfloat16"
    model.config.save_pretrained(folder)
    path = folder / "config.json"
    path.write_text(json.dumps(dict(json.loads(path.read_text()), quantization_config=config), indent=1) + "\n")
    safetensors.torch.save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    plain.write_as_family(folder, options)
    write_golden(folder, prompt, rows, tokens, gap)
    report(name, folder, seed, gap, tokens)


def make_gpt_oss(name):
    """Experts in MXFP4 as gpt-oss publishes them, everything else in bfloat16."""
    model = new_model(families("gpt_oss"))

    def prepare():
        stored = {}
        for key, tensor in model.state_dict().items():
            if not key.endswith(("gate_up_proj", "down_proj")):
                stored[key] = tensor.to(torch.bfloat16).clone()
                continue
            parts = [layouts.mx(np.ascontiguousarray(one.numpy().T), 4) for one in tensor]
            tensor.copy_(torch.from_numpy(np.stack([exact.T for _, exact in parts])))
            for suffix, kind in (("weight_packed", "blocks"), ("weight_scale", "scales")):
                stacked = torch.stack([tensors[suffix].view(torch.uint8) for tensors, _ in parts])
                shape = stacked.shape
                if kind == "blocks":
                    stacked = stacked.reshape(shape[0], shape[1], shape[2] // 16, 16)
                stored[f"{key}_{kind}"] = stacked.contiguous()
        return stored

    config = dict(quant_method="mxfp4", modules_to_not_convert=["model.layers.*.self_attn", "model.layers.*.mlp.router",
                                                                "model.embed_tokens", "lm_head"])
    save(name, model, config, search(model, prepare, False))


def random_matrix(kind, like, rng):
    """Returns a matrix of random blocks whose values are distributed like those of `like`: as stored, and decoded."""
    ones = np.ones((like.shape[0], like.shape[1] // 256))
    scale = like.std() / gguf_blocks.decode_random(kind, gguf_blocks.random_blocks(kind, ones, rng)).std()
    raw = gguf_blocks.random_blocks(kind, ones * scale, rng)
    return (kind, raw), gguf_blocks.decode_random(kind, raw)


def make_gguf(name, family, mix):
    model = new_model(gguf_family(family, 64 if mix["base"] == "Q8_0" else 256))
    arch = model.config.model_type
    kind_of = lambda stem: mix.get(stem, mix["base"])

    def prepare():
        rng = np.random.default_rng(3)
        stored, exact = {}, {}
        for key, value in plain.gguf_tensors(model, arch, joined=False).items():
            if value.ndim == 1 or key == "position_embd.weight":  # converters do not quantize these
                stored[key] = plain.gguf_tensor(value.copy())
                continue
            kind = kind_of(key.removesuffix(".weight").split(".")[-1])
            if value.shape[1] % (gguf_blocks.TYPES | gguf_blocks.GRID_TYPES)[kind][1]:
                raise SystemExit(f"{key}: rows of {value.shape[1]} for {kind}")
            if kind in gguf_blocks.GRID_TYPES:
                stored[key], exact[key] = random_matrix(kind, value, rng)
                continue
            stored[key] = (kind, gguf_blocks.encode(kind, value, rng))
            exact[key] = gguf_blocks.decode(kind, stored[key][1])
        # Loads the tensors into the model under the same names, with the rows of q and k in their original order.
        state = model.state_dict()
        for key, tensor in state.items():
            if tensor.ndim != 2 or (key == "lm_head.weight" and model.config.tie_word_embeddings):
                continue
            if plain.gguf_name(key, arch) not in exact:
                continue
            value = exact[plain.gguf_name(key, arch)]
            if arch == "llama" and ("q_proj" in key or "k_proj" in key):
                heads = model.config.num_attention_heads if "q_proj" in key else model.config.num_key_value_heads
                half = value.shape[0] // heads // 2
                value = value.reshape(heads, half, 2, -1).swapaxes(1, 2).reshape(value.shape)
            if arch == "gpt2" and ".c_" in key:  # transformers stores inputs first
                value = value.T
            tensor.copy_(torch.from_numpy(np.ascontiguousarray(value)))
        return stored

    prompt, seed, rows, tokens, gap, stored = search(model, prepare, False)
    folder = fresh_folder(name)
    gguf_blocks.write_gguf(folder / "model.gguf", plain.gguf_metadata(model.config, arch, joined=False), stored)
    write_golden(folder, prompt, rows, tokens, gap)
    report(name, folder, seed, gap, tokens)


# Tensors that stay floats: tables, heads, routers, tensors that are no matrices of products, tensors that decide how far a
# token moves a state, and rows that are stored head by head.
STAYS_FLOAT = ("embed", "lm_head", "indexer", "output_projection", "wte", "wpe", "router", "conv", "norm", "ln_", "dt_proj", "x_proj", "in_proj_a", "in_proj_b",
               "f_a_proj", "f_b_proj", "b_proj", "kv_b_proj", "query_key_value", "in_proj_qkvz", "shared_expert_gate",
               "gate.weight", "gate.wg.weight", "per_layer", "A_log", ".D", "mlp.gate.")


def is_product(name, tensor):
    name = name.replace("norm_attn_norm.", "")  # DBRX's attention
    return tensor.ndim == 2 and name.endswith(".weight") and not any(part in name for part in STAYS_FLOAT)


def make_family(name, family, variant):
    """Writes the first golden of a family with all its products in int8, one scale per row, for any width. The file is
    written, changed and read by transformers again, so that names are those of the family's checkpoints."""
    config, _, options = variant
    model = new_model(config, options)
    variety = 2 if family in REPEATS_ITSELF else 8
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)

        def quantized(seed):
            plain.randomize(model, seed, torch.bfloat16)
            plain.calm(model, options, torch.bfloat16)
            model.to(torch.bfloat16).save_pretrained(folder)
            model.float()
            stored = safetensors.torch.load_file(folder / "model.safetensors")
            exact = {key: tensor.float() for key, tensor in stored.items()}
            floats = FLOATS.get(family, "nothing")
            for key in [key for key, tensor in stored.items() if is_product(key, tensor) and floats not in key]:
                module = key.removesuffix(".weight")
                tensors, values = layouts.int8(stored.pop(key).float().numpy())
                stored.update({f"{module}.{suffix}": value.contiguous() for suffix, value in tensors.items()})
                exact[key] = torch.from_numpy(np.ascontiguousarray(values, np.float32))
            if "reshape" in options:  # no class of transformers reads it
                oracle = new_model(config, options)
                oracle.load_state_dict(exact, strict=not config.tie_word_embeddings)
                oracle.tie_weights()
                return stored, oracle
            safetensors.torch.save_file(exact, folder / "model.safetensors", metadata={"format": "pt"})
            oracle = tf.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
            if family in CHANGES_WHEN_LOADED:
                oracle.load_state_dict(exact, strict=not config.tie_word_embeddings)
                oracle.tie_weights()
            return stored, oracle.eval()

        prompt = torch.randint(3, plain.VOCAB, (plain.PROMPT,), generator=torch.Generator().manual_seed(7)).tolist()
        for seed in range(options.get("first_seed", 0), 1000):
            stored, oracle = quantized(seed)
            with expert_models.RouterGaps() as routers, latent_models.IndexGaps() as indexers:
                rows, tokens, gap = plain.run(oracle, prompt, False)
            if indexers.smallest < options.get("index_gap", 0.0) or routers.smallest < ROUTER_GAPS.get(family, expert_models.MIN_ROUTER_GAP) or gap < plain.MIN_GAP or len(set(tokens)) < variety:
                continue
            if family not in STEADY or plain.served_error(oracle, prompt + tokens) <= plain.MAX_SERVED_ERROR:
                break
        else:
            raise SystemExit(f"{name}: no seed gives clear choices")
    config = compressed("int-quantized", bits=8, strategy="channel")
    save(name, model, config, (prompt, seed, rows, tokens, gap, stored), options)


# Families for which the last token's own logit, by the tied head, is far above the others.
REPEATS_ITSELF = ("opt", "bloom", "mpt", "gpt_bigcode", "biogpt")

# Families whose random weights amplify rounding errors. Seeds are searched with which the logits are stable.
STEADY = ("gemma3n_text", "zamba2", "minicpm3", "phimoe", "ernie4_5_moe", "qwen3_5_moe", "bamba", "nemotron_h", "deepseek_v32",
          "glm_moe_dsa")

# Families whose class sets the padding token's row of the embedding, which is also the head, to 0 when it reads a checkpoint.
CHANGES_WHEN_LOADED = ("youtu",)

# Families whose experts are in one tensor.
FLOATS = {"qwen3_vl_moe": ".experts.", "deepseek": ".experts.", "bailing_moe": ".experts."}

# Families whose routers could choose differently by rounding on some instruction set, unless the chosen experts have a clear
# lead.
ROUTER_GAPS = {"exaone_moe": 0.02, "llama4": 0.02, "glm_moe_dsa": 0.02}

# golden of make_model_goldens.py -> family. Missing: Kimi Linear, whose oracle is slow and whose seeds are hardly ever clear; gpt2 and the first GPT, whose files store inputs first, which is not read
FAMILIES = {
    "mistral": "mistral", "gemma3": "gemma3_text", "granite": "granite", "smollm3": "smollm3", "seed_oss": "seed_oss",
    "hunyuan": "hunyuan_v1_dense", "arcee": "arcee", "ernie4_5": "ernie4_5", "ministral3": "ministral3", "olmo2": "olmo2",
    "olmo3": "olmo3", "exaone4": "exaone4", "glm": "glm", "glm4": "glm4", "cohere": "cohere", "cohere2": "cohere2",
    "stablelm": "stablelm", "phi": "phi", "starcoder2": "starcoder2", "gpt_neox": "gpt_neox", "nemotron": "nemotron",
    "gemma": "gemma", "vaultgemma": "vaultgemma", "helium": "helium", "cwm": "cwm", "jais2": "jais2", "apertus": "apertus",
    "falcon_7b": "falcon", "qwen2_moe": "qwen2_moe", "mixtral": "mixtral",
    "minimax_m2": "minimax_m2", "glm4_moe": "glm4_moe",
    "granitemoe": "granitemoe", "olmoe": "olmoe", "deepseek_v2": "deepseek_v2", "deepseek_v3": "deepseek_v3",
    "glm4_moe_lite": "glm4_moe_lite", "lfm2": "lfm2", "lfm2_moe": "lfm2_moe", "qwen3_next": "qwen3_next",
    "qwen3_5": "qwen3_5", "granitemoehybrid": "granitemoehybrid",
    "falcon_h1": "falcon_h1", "mamba": "mamba", "falcon_mamba": "falcon_mamba",
    "mamba2": "mamba2", "jamba": "jamba", "gemma4_shared": "gemma4_text", "dots1": "dots1",
    "solar_open": "solar_open", "afmoe": "afmoe",
    "hunyuan_v1_moe": "hunyuan_v1_moe", "gemma3n": "gemma3n_text", "zamba2": "zamba2",
    "opt": "opt", "bloom": "bloom", "mpt": "mpt", "minicpm3_plain": "minicpm3", "phimoe": "phimoe",
    "exaone_moe": "exaone_moe", "llama4": "llama4", "internlm3_plain": "internlm3",
    "ernie4_5_moe": "ernie4_5_moe", "qwen3_5_moe": "qwen3_5_moe", "bamba": "bamba", "nemotron_h": "nemotron_h",
    "minicpm": "minicpm", "qwen2_vl": "qwen2_vl", "qwen3_vl": "qwen3_vl", "qwen3_vl_moe": "qwen3_vl_moe",
    "baichuan": "baichuan", "gptj": "gptj", "codegen": "codegen", "gpt_bigcode": "gpt_bigcode", "gpt_neo": "gpt_neo",
    "biogpt": "biogpt", "olmo": "olmo", "flex_olmo": "flex_olmo", "internlm": "internlm", "internlm2": "internlm2",
    "xverse": "xverse", "orion": "orion", "qwen": "qwen", "chatglm": "chatglm", "exaone": "exaone",
    "hyperclovax": "hyperclovax", "nanochat": "nanochat", "mellum": "mellum",
    "bailing_moe": "bailing_moe", "bailing_moe_v2": "bailing_moe_v2", "deepseek": "deepseek",
    "deepseek_v32": "deepseek_v32", "nemotron_nas": "nemotron-nas", "openelm": "openelm",
    "cohere2_moe": "cohere2_moe", "granite_swa": "granite_swa", "hy_v3": "hy_v3", "dbrx": "dbrx",
    "aria_text": "aria_text", "granitemoe_swa": "granitemoe_swa", "flint": "flint", "axk1": "axk1",
    "persimmon": "persimmon", "gemma4_unified": "gemma4_unified_text",
    "youtu": "youtu", "glm_moe_dsa": "glm_moe_dsa",
}


def fresh_folder(name):
    folder = ROOT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def report(name, folder, seed, gap, tokens):
    size = sum(f.stat().st_size for f in folder.iterdir())
    print(f"{name:22} seed {seed:2} gap {gap:.4f} distinct {len(set(tokens)):2} {size / 1024:6.1f} KiB", flush=True)


def main():
    wanted = sys.argv[1:]
    rng = np.random.default_rng(17)
    with torch.no_grad():
        for scheme, (names, config, quantize) in schemes(rng).items():
            for family in names:
                name = f"{scheme}_{family}"
                if not wanted or name in wanted:
                    make(name, family, config, quantize)
        variants = plain.variants() | plain.dense_variants()
        for golden, family in FAMILIES.items():
            name = f"int8_rows_{family}"
            if not wanted or name in wanted:
                make_family(name, family, variants[golden])
        if not wanted or "mxfp4_gpt_oss" in wanted:
            make_gpt_oss("mxfp4_gpt_oss")
        for mix, kinds in GGUF_MIXES.items():
            for family in ("llama", "qwen2", "gemma2") + (("gpt2",) if mix == "simple_mix" else ()):
                name = f"gguf_{mix}_{family}"
                if not wanted or name in wanted:
                    make_gguf(name, family, kinds)


if __name__ == "__main__":
    main()
