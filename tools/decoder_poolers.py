"""Decoders that make embeddings or scores, for tools/make_pooling_goldens.py: what transformers has no class for, and the
GGUF file of EmbeddingGemma."""

import json
import types

import numpy as np
import torch
import transformers as tf

import gguf_blocks
import make_model_goldens


class RewardModel(torch.nn.Module):
    """Qwen2.5-Math-RM, and with two labels Qwen2.5-Math-PRM: two layers on the state of each token
    (https://arxiv.org/abs/2409.12122, section 3.2, and https://arxiv.org/abs/2501.07301)."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.model = tf.Qwen2Model._from_config(config)
        size = config.hidden_size
        self.score = torch.nn.Sequential(torch.nn.Linear(size, size), torch.nn.ReLU(),
                                         torch.nn.Linear(size, config.num_labels))

    def forward(self, input_ids, attention_mask):
        states = self.model(input_ids, attention_mask=attention_mask).last_hidden_state
        return types.SimpleNamespace(logits=self.score(states))

    def save_pretrained(self, folder):
        holder = tf.Qwen2ForSequenceClassification(self.config)
        holder.save_pretrained(folder, state_dict=self.state_dict())
        path = folder / "config.json"
        stated = json.loads(path.read_text())
        kind = "ProcessRewardModel" if self.config.num_labels == 2 else "RewardModel"
        stated.update(architectures=[f"Qwen2For{kind}"])
        if hasattr(self.config, "step_tag_id"):
            stated["step_tag_id"] = self.config.step_tag_id
        path.write_text(json.dumps(stated, indent=1) + "\n")


def write_gemma_gguf(folder, model, layers, sliding_window):
    """Writes the GGUF file as converters write EmbeddingGemma with --sentence-transformers-dense-modules."""
    config = model.config
    named = types.SimpleNamespace(config=config, state_dict=lambda: {f"model.{name}": value for name, value in
                                                                    model.state_dict().items()})
    tensors = make_model_goldens.gguf_tensors(named, "gemma3", False)
    for index, layer in enumerate(layers, start=2):
        tensors[f"dense_{index}.weight"] = layer[0].weight.detach().float().numpy()
    meta = {key.replace("gemma3.", "gemma-embedding."): value for key, value in
            make_model_goldens.gguf_metadata(config, "gemma3", False).items()}
    meta.update({"general.architecture": "gemma-embedding", "gemma-embedding.pooling_type": 1,
                 "gemma-embedding.attention.sliding_window": sliding_window})
    stored = {name: ("F32", np.ascontiguousarray(value).view("uint8") if value.ndim > 1 else value)
              for name, value in tensors.items()}
    gguf_blocks.write_gguf(folder / "model.gguf", meta, stored)
