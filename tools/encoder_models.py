"""Encoders that transformers does not have as they are published, for tools/make_pooling_goldens.py."""

import dataclasses
import json
import math
import tempfile
import types

import torch
import transformers as tf
from safetensors.torch import load_file, save_file

import gguf_blocks


class NtkGte(tf.GteModel):
    """GTE as Alibaba publishes it: under its own name, with the base before scaling. All frequencies are those of a base
    `FACTOR` times as large, divided by FACTOR^(2 / head_dim)."""

    BASE, FACTOR = 500.0, 4.0

    def __init__(self, config, **more):
        config.rope_parameters = dict(rope_type="default", rope_theta=self.BASE * self.FACTOR)
        super().__init__(config, **more)
        head_dim = config.hidden_size // config.num_attention_heads
        with torch.no_grad():
            self.rotary_emb.inv_freq /= self.FACTOR ** (2 / head_dim)

    def save_pretrained(self, folder):
        super().save_pretrained(folder)
        path = folder / "config.json"
        stated = json.loads(path.read_text())
        del stated["rope_parameters"]
        stated.update(model_type="new", architectures=["NewModel"], position_embedding_type="rope",
                      layer_norm_type="layer_norm", logn_attention_scale=False, rope_theta=self.BASE,
                      rope_scaling=dict(type="ntk", factor=self.FACTOR))
        path.write_text(json.dumps(stated, indent=1) + "\n")


class JinaTasks(tf.JinaEmbeddingsV3Model):
    """jina-embeddings-v3 as Jina publishes it: an XLM-RoBERTa with rotary positions. For each task, every matrix W has an
    update, W + alpha / rank * B A (https://arxiv.org/abs/2409.10173, section 4.3), which torch stores beside W as a
    parametrization. Tables have it transposed, A B."""

    TASKS = {"retrieval.query": "find: ", "retrieval.passage": "", "text-matching": "match: "}
    RANK, ALPHA = 3, 2

    def save_pretrained(self, folder):
        plain = tf.JinaEmbeddingsV3Model(self.config)  # its tensors have the published form
        plain.load_state_dict(self.state_dict())
        plain.save_pretrained(folder)
        self.stored = load_file(folder / "model.safetensors")
        generator = torch.Generator().manual_seed(23)
        self.updates, published = {}, {}
        for name, weight in self.stored.items():
            if weight.ndim < 2:
                published[f"roberta.{name}"] = weight
                continue
            rows, columns = weight.shape
            is_table = "embeddings" in name
            a = torch.randn(len(self.TASKS), *((rows, self.RANK) if is_table else (self.RANK, columns)), generator=generator)
            b = torch.randn(len(self.TASKS), *((self.RANK, columns) if is_table else (rows, self.RANK)), generator=generator)
            a, b = a * 0.5, b * 0.5 * (1.0 if is_table else self.RANK ** -0.5)
            stem = f"roberta.{name.removesuffix('.weight')}.parametrizations.weight"
            published |= {f"{stem}.original": weight, f"{stem}.0.lora_A": a, f"{stem}.0.lora_B": b}
            self.updates[name] = (a, b)
        # Checkpoints also contain a pooler that is not used.
        published["roberta.pooler.dense.parametrizations.weight.0.lora_A"] = torch.ones(len(self.TASKS), self.RANK, 2)
        save_file(published, folder / "model.safetensors")
        path = folder / "config.json"
        stated = json.loads(path.read_text())
        base = stated.pop("rope_parameters")["rope_theta"]
        stated.update(model_type="xlm-roberta", architectures=["XLMRobertaModel"], position_embedding_type="rotary",
                      rotary_emb_base=base, lora_adaptations=list(self.TASKS), lora_rank=self.RANK, lora_alpha=self.ALPHA,
                      task_instructions=self.TASKS)
        path.write_text(json.dumps(stated, indent=1) + "\n")

    def of_task(self, index):
        """Returns the model with the updates of one task added to its weights."""
        merged = dict(self.stored)
        for name, (a, b) in self.updates.items():
            product = a[index] @ b[index] if "embeddings" in name else b[index] @ a[index]
            merged[name] = merged[name] + self.ALPHA / self.RANK * product
        with tempfile.TemporaryDirectory() as folder:
            self.config.save_pretrained(folder)
            save_file(merged, f"{folder}/model.safetensors", metadata={"format": "pt"})
            return tf.JinaEmbeddingsV3Model.from_pretrained(folder, attn_implementation="eager").float().eval()


@dataclasses.dataclass
class JinaBertConfig:
    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int = 64
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12
    hidden_act: str = "gelu"
    position_embedding_type: str = "alibi"
    feed_forward_type: str = "geglu"
    model_type: str = "bert"


def alibi_slopes(heads):
    """For a power of two of heads, returns a geometric sequence; otherwise that of the next lower power of two, and every
    second value of the next higher one."""
    def powers(count):
        return [2.0 ** (-8.0 * (i + 1) / count) for i in range(count)]
    lower = 2 ** math.floor(math.log2(heads))
    return powers(lower) + powers(2 * lower)[::2][:heads - lower]


class JinaBertLayer(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        width, ffn = config.hidden_size, config.intermediate_size
        self.attention = torch.nn.Module()
        self.attention.self = torch.nn.Module()
        for name in ("query", "key", "value"):
            setattr(self.attention.self, name, torch.nn.Linear(width, width))
        self.attention.output = torch.nn.Module()
        self.attention.output.dense = torch.nn.Linear(width, width)
        self.attention.output.LayerNorm = torch.nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.mlp = torch.nn.Module()
        self.mlp.gated_layers = torch.nn.Linear(width, 2 * ffn, bias=False)
        self.mlp.wo = torch.nn.Linear(ffn, width)
        self.mlp.layernorm = torch.nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.heads, self.ffn = config.num_attention_heads, ffn

    def forward(self, x, bias):
        rows, width = x.shape
        query, key, value = (getattr(self.attention.self, name)(x).view(rows, self.heads, -1).transpose(0, 1)
                             for name in ("query", "key", "value"))
        scores = query @ key.transpose(1, 2) / math.sqrt(width // self.heads) + bias
        attended = (scores.softmax(-1) @ value).transpose(0, 1).reshape(rows, width)
        x = self.attention.output.LayerNorm(x + self.attention.output.dense(attended))
        gate, up = self.mlp.gated_layers(x).split(self.ffn, -1)
        return self.mlp.layernorm(x + self.mlp.wo(torch.nn.functional.gelu(gate) * up))


class JinaBert(torch.nn.Module):
    """jina-embeddings-v2: BERT without learned positions, whose scores decrease with the distance on both sides (ALiBi),
    and with a gate in its MLP (https://arxiv.org/abs/2310.19923, section 3.1)."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embeddings = torch.nn.Module()
        self.embeddings.word_embeddings = torch.nn.Embedding(config.vocab_size, config.hidden_size)
        self.embeddings.token_type_embeddings = torch.nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.embeddings.LayerNorm = torch.nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.encoder = torch.nn.Module()
        self.encoder.layer = torch.nn.ModuleList(JinaBertLayer(config) for _ in range(config.num_hidden_layers))

    def forward(self, input_ids, attention_mask, token_type_ids=None):
        types_of = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        x = self.embeddings.word_embeddings(input_ids[0]) + self.embeddings.token_type_embeddings(types_of[0])
        x = self.embeddings.LayerNorm(x)
        place = torch.arange(x.shape[0])
        distance = (place[:, None] - place[None, :]).abs().float()
        bias = -torch.tensor(alibi_slopes(self.config.num_attention_heads))[:, None, None] * distance
        for layer in self.encoder.layer:
            x = layer(x, bias)
        return types.SimpleNamespace(last_hidden_state=x[None])

    def save_pretrained(self, folder):
        (folder / "config.json").write_text(json.dumps(
            dict(dataclasses.asdict(self.config), architectures=["JinaBertModel"], emb_pooler="mean"), indent=1) + "\n")
        save_file(self.state_dict(), folder / "model.safetensors")


# llama.cpp's names of the tensors of BERT-like models.
GGUF_NAMES = {
    "word_embeddings": "token_embd", "position_embeddings": "position_embd", "token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm", "attention.self.query": "attn_q", "attention.self.key": "attn_k",
    "attention.self.value": "attn_v", "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm", "intermediate.dense": "ffn_up", "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm", "emb_ln": "token_embd_norm", "attn.Wqkv": "attn_qkv",
    "attn.out_proj": "attn_output", "norm1": "attn_output_norm", "norm2": "layer_output_norm", "mlp.fc11": "ffn_up",
    "mlp.fc12": "ffn_gate", "mlp.fc2": "ffn_down", "mlp.gated_layers": "ffn_up", "mlp.wo": "ffn_down",
    "mlp.layernorm": "layer_output_norm",
}


def gguf_name(name):
    """Returns the GGUF name of a tensor of an encoder's checkpoint, or None if converters leave it out."""
    stem, suffix = name.rsplit(".", 1)
    parts = stem.split(".")
    layer = next((part for part in parts if part.isdigit()), None)
    known = [new for old, new in sorted(GGUF_NAMES.items(), key=lambda pair: -len(pair[0])) if stem.endswith(old)]
    if not known:
        return None
    return f"{known[0]}.{suffix}" if layer is None else f"blk.{layer}.{known[0]}.{suffix}"


def write_gguf(folder, arch, config, pooling):
    """Writes model.gguf beside model.safetensors. XLM-R's positions begin behind the rows that are for padding."""
    tensors = {}
    for name, value in load_file(folder / "model.safetensors").items():
        if (new := gguf_name(name)) is None:
            continue
        value = value.float().numpy()
        if new == "position_embd.weight" and config.model_type == "xlm-roberta":
            value = value[config.pad_token_id + 1:].copy()
        tensors[new] = ("F32", value.view("uint8") if value.ndim > 1 else value)
    rope = getattr(config, "rope_parameters", None) or {}
    first = config.pad_token_id + 1 if config.model_type == "xlm-roberta" else 0
    meta = {"general.architecture": arch, f"{arch}.context_length": config.max_position_embeddings - first,
            f"{arch}.embedding_length": config.hidden_size, f"{arch}.block_count": config.num_hidden_layers,
            f"{arch}.feed_forward_length": config.intermediate_size,
            f"{arch}.attention.head_count": config.num_attention_heads,
            f"{arch}.attention.layer_norm_epsilon": float(config.layer_norm_eps),
            f"{arch}.attention.causal": False, f"{arch}.pooling_type": {"mean_tokens": 1, "cls_token": 2}[pooling]}
    if "rope_theta" in rope:
        meta[f"{arch}.rope.freq_base"] = float(rope["rope_theta"])
    gguf_blocks.write_gguf(folder / "model.gguf", meta, tensors)
