#!/usr/bin/env python3
"""Tiny random embedders, rerankers and classifiers, and what transformers computes with them.

Writes tests/goldens/pooling/<name>/{config.json, model.safetensors, modules.json ..., golden.json}. All parameters are
random and large, so that every one of them matters. Pooling and what follows it are computed here in torch as
sentence-transformers does. Needs transformers and torch (tools/requirements-oracles.txt).

  tools/make_pooling_goldens.py [NAME ...]
"""

import json
import math
import pathlib
import shutil
import sys

import torch
import transformers as tf
from safetensors.torch import save_file

import decoder_poolers
import encoder_models
import text_source_gguf

ROOT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "goldens" / "pooling"
VOCAB = 96
LENGTHS = (1, 2, 7, 16, 33, 61)
STEP = 9  # the token that ends a step
WINDOW = 12


def bert(**more):
    return tf.BertConfig(**dict(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=3, num_attention_heads=4,
                                intermediate_size=48, max_position_embeddings=64, **more))


def roberta(cls, **more):
    return cls(**dict(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                      intermediate_size=48, max_position_embeddings=66, type_vocab_size=1, layer_norm_eps=1e-5,
                      pad_token_id=1, **more))


def mpnet(**more):
    return tf.MPNetConfig(**dict(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                 intermediate_size=48, max_position_embeddings=66, layer_norm_eps=1e-5, **more))


def modernbert(**more):
    """Four layers, of which the first and the last attend to all tokens, the others to three tokens on each side."""
    return tf.ModernBertConfig(**dict(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=4, num_attention_heads=4,
                                      intermediate_size=48, max_position_embeddings=64, local_attention=6,
                                      global_rope_theta=3000.0, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                                      cls_token_id=1, sep_token_id=2, **more))


def decoder(cls, **more):
    return cls(**dict(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                      num_key_value_heads=2, intermediate_size=48, max_position_embeddings=64, pad_token_id=0, **more))


def rotating(cls, **more):
    return cls(**dict(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                      intermediate_size=48, max_position_embeddings=64, type_vocab_size=1, **more))


def embedding_gemma():
    """Six layers, of which the last attends to all tokens, the others to six tokens on each side."""
    rope = dict(sliding_attention=dict(rope_type="default", rope_theta=10000.0),
                full_attention=dict(rope_type="default", rope_theta=5000.0))
    return tf.Gemma3TextConfig(vocab_size=VOCAB, hidden_size=24, num_hidden_layers=6, num_attention_heads=2,
                               num_key_value_heads=1, head_dim=10, query_pre_attn_scalar=10, intermediate_size=28,
                               max_position_embeddings=64, sliding_window=WINDOW, use_bidirectional_attention=True,
                               rope_parameters=rope, pad_token_id=0)


def variants():
    one = dict(num_labels=1)
    return {
        "bert_mean": (tf.BertModel, bert(), dict(pooling="mean_tokens", normalize=True, pairs=True, gguf="bert")),
        "bert_max": (tf.BertModel, bert(hidden_act="gelu_new"), dict(pooling="max_tokens")),
        "bert_dense": (tf.BertModel, bert(), dict(pooling="cls_token", dense=[(24, "Tanh"), (16, "Identity")],
                                                  normalize=True)),
        "bert_reranker": (tf.BertForSequenceClassification, bert(**one), dict(pairs=True)),
        "bert_raw_scores": (tf.BertForSequenceClassification, bert(
            sbert_ce_default_activation_function="torch.nn.modules.linear.Identity", **one), dict(pairs=True)),
        "bert_classifier": (tf.BertForSequenceClassification, bert(num_labels=5), {}),
        "bert_tagger": (tf.BertForTokenClassification, bert(num_labels=3), {}),
        "xlm_roberta_cls": (tf.XLMRobertaModel, roberta(tf.XLMRobertaConfig), dict(pooling="cls_token",
                                                                                  normalize=True, gguf="bert")),
        "roberta_reranker": (tf.RobertaForSequenceClassification, roberta(tf.RobertaConfig, **one), {}),
        "nomic_bert_mean": (tf.NomicBertModel, tf.NomicBertConfig(
            vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
            max_position_embeddings=64), dict(pooling="mean_tokens", normalize=True, pairs=True, gguf="nomic-bert")),
        "distilbert_mean": (tf.DistilBertModel, tf.DistilBertConfig(
            vocab_size=VOCAB, dim=32, n_layers=2, n_heads=4, hidden_dim=48, max_position_embeddings=64),
            dict(pooling="mean_tokens", normalize=True)),
        "mpnet_mean": (tf.MPNetModel, mpnet(), dict(pooling="mean_tokens", normalize=True)),
        "mpnet_reranker": (tf.MPNetForSequenceClassification, mpnet(**one), {}),
        "modernbert_mean": (tf.ModernBertModel, modernbert(), dict(pooling="mean_tokens", normalize=True)),
        "modernbert_reranker": (tf.ModernBertForSequenceClassification, modernbert(classifier_pooling="mean", **one), {}),
        "modernbert_tagger": (tf.ModernBertForTokenClassification, modernbert(num_labels=3), {}),
        "gte_cls": (tf.GteModel, rotating(tf.GteConfig), dict(pooling="cls_token", normalize=True)),
        "gte_ntk_cls": (encoder_models.NtkGte, rotating(tf.GteConfig), dict(pooling="cls_token")),
        "gte_reranker": (tf.GteForSequenceClassification, rotating(tf.GteConfig, **one), {}),
        "jina_v3_mean": (tf.JinaEmbeddingsV3Model, rotating(tf.JinaEmbeddingsV3Config), dict(pooling="mean_tokens",
                                                                                          normalize=True)),
        "jina_v3_tasks": (encoder_models.JinaTasks, rotating(tf.JinaEmbeddingsV3Config, hidden_act="gelu"), dict(
            pooling="mean_tokens", normalize=True)),
        "jina_bert_mean": (encoder_models.JinaBert, encoder_models.JinaBertConfig(
            vocab_size=VOCAB, hidden_size=48, num_hidden_layers=2, num_attention_heads=6, intermediate_size=40),
            dict(pooling="mean_tokens", normalize=True, pairs=True, gguf="jina-bert-v2")),
        "t5_encoder_dense": (tf.T5EncoderModel, tf.T5Config(
            vocab_size=VOCAB, d_model=32, d_kv=12, d_ff=48, num_layers=2, num_heads=4, relative_attention_num_buckets=16,
            relative_attention_max_distance=24, n_positions=64, feed_forward_proj="gated-gelu"),
            dict(pooling="mean_tokens", dense=[(24, "Identity")], normalize=True)),
        "t5_encoder_mean": (tf.T5EncoderModel, tf.T5Config(
            vocab_size=VOCAB, d_model=32, d_kv=12, d_ff=48, num_layers=2, num_heads=4, relative_attention_num_buckets=16,
            n_positions=64), dict(pooling="mean_tokens", normalize=True, gguf="t5encoder")),
        "qwen3_last": (tf.Qwen3Model, decoder(tf.Qwen3Config, head_dim=8), dict(pooling="lasttoken", normalize=True)),
        "mistral_mean": (tf.MistralModel, decoder(tf.MistralConfig, sliding_window=None),
                         dict(pooling="mean_tokens")),
        "qwen2_both_ways": (tf.Qwen2Model, decoder(tf.Qwen2Config, is_causal=False), dict(pooling="lasttoken",
                                                                                          normalize=True)),
        "embedding_gemma": (tf.Gemma3TextModel, embedding_gemma(), dict(
            pooling="mean_tokens", dense=[(24, "Identity"), (16, "Identity")], dense_bias=False, normalize=True,
            gguf="gemma-embedding")),
        "qwen2_reward": (decoder_poolers.RewardModel, decoder(tf.Qwen2Config, num_labels=1), {}),
        "qwen2_step_rewards": (decoder_poolers.RewardModel, decoder(tf.Qwen2Config, num_labels=2, step_tag_id=STEP), {}),
        "qwen3_reranker": (tf.Qwen3ForCausalLM, decoder(tf.Qwen3Config, head_dim=8, tie_word_embeddings=True),
                           dict(logits=(17, 40))),
        "llama_reranker": (tf.LlamaForCausalLM, decoder(tf.LlamaConfig, tie_word_embeddings=False),
                           dict(logits=(17, None))),
        "qwen2_classifier": (tf.Qwen2ForSequenceClassification, decoder(tf.Qwen2Config, num_labels=4), {}),
        "llama_tagger": (tf.LlamaForTokenClassification, decoder(tf.LlamaConfig, num_labels=3), {}),
    }


def randomize(parameters, seed):
    """Sets values so large that each parameter changes the result."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in parameters:
        noise = torch.randn(parameter.shape, generator=generator)
        if ("norm" in name.lower() and parameter.dim() == 1) or name.endswith("bias"):
            value = 0.3 * noise + (0.0 if name.endswith("bias") else 1.0)
        elif "embed" in name or "wte" in name:
            value = 0.7 * noise
        else:
            value = 1.2 * noise / math.sqrt(parameter.shape[-1])
        with torch.no_grad():
            parameter.copy_(value)


def dense_layers(options, hidden, folder):
    """The modules 2_Dense, 3_Dense ... of sentence-transformers."""
    layers, inputs = [], hidden
    for index, (outputs, activation) in enumerate(options.get("dense", []), start=2):
        linear = torch.nn.Linear(inputs, outputs, bias=options.get("dense_bias", True))
        randomize(linear.named_parameters(), 100 + index)
        act = torch.nn.Tanh() if activation == "Tanh" else torch.nn.Identity()
        layers.append(torch.nn.Sequential(linear, act))
        path = folder / f"{index}_Dense"
        path.mkdir()
        save_file({f"linear.{key}": value for key, value in linear.state_dict().items()}, path / "model.safetensors")
        stated = dict(in_features=inputs, out_features=outputs, bias=options.get("dense_bias", True),
                      activation_function=f"{type(act).__module__}.{activation}")
        (path / "config.json").write_text(json.dumps(stated) + "\n")
        inputs = outputs
    return layers


def write_modules(options, hidden, folder, layers):
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling")]
    kinds += [(f"{index}_Dense", "Dense") for index in range(2, 2 + len(layers))]
    if options.get("normalize"):
        kinds.append((f"{len(kinds)}_Normalize", "Normalize"))
    modules = [dict(idx=i, name=str(i), path=path, type=f"sentence_transformers.models.{kind}")
               for i, (path, kind) in enumerate(kinds)]
    (folder / "modules.json").write_text(json.dumps(modules, indent=1) + "\n")
    (folder / "1_Pooling").mkdir()
    modes = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
    stated = dict(word_embedding_dimension=hidden, **{f"pooling_mode_{m}": m == options["pooling"] for m in modes})
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(stated) + "\n")


def write_logit_score(options, folder):
    modules = [dict(idx=0, name="0", path="", type="sentence_transformers.base.modules.transformer.Transformer"),
               dict(idx=1, name="1", path="1_LogitScore",
                    type="sentence_transformers.cross_encoder.modules.logit_score.LogitScore")]
    (folder / "modules.json").write_text(json.dumps(modules, indent=1) + "\n")
    (folder / "1_LogitScore").mkdir()
    yes, no = options["logits"]
    stated = dict(true_token_id=yes, false_token_id=no, module_input_name="causal_logits")
    (folder / "1_LogitScore" / "config.json").write_text(json.dumps(stated) + "\n")


def pooled(states, kind):
    return {"cls_token": lambda: states[0], "mean_tokens": lambda: states.mean(0),
            "max_tokens": lambda: states.max(0).values, "lasttoken": lambda: states[-1]}[kind]()


@torch.no_grad()
def outcome(model, layers, options, inputs):
    """Returns the result of the model for one text, [rows, columns]."""
    out = model(**inputs)
    if "logits" in options:  # as sentence-transformers' LogitScore
        yes, no = options["logits"]
        last = out.logits[0, -1]
        return torch.sigmoid(last[yes] - (last[no] if no is not None else 0))[None, None]
    if isinstance(model, decoder_poolers.RewardModel):
        if model.config.num_labels == 1:
            return out.logits[0, -1:]
        return torch.softmax(out.logits[0], -1)[inputs["input_ids"][0] == STEP]
    if "pooling" not in options:
        scores = out.logits[0] if out.logits.dim() == 3 else out.logits
        if hasattr(model.config, "sbert_ce_default_activation_function"):
            return scores
        return torch.sigmoid(scores) if scores.shape[-1] == 1 else torch.softmax(scores, -1)
    row = pooled(out.last_hidden_state[0], options["pooling"])
    for layer in layers:
        row = layer(row)
    return (torch.nn.functional.normalize(row, dim=-1) if options.get("normalize") else row)[None]


def make(name, cls, config, options):
    config._attn_implementation = "eager"
    model = cls._from_config(config) if hasattr(cls, "_from_config") else cls(config)
    model = model.float().eval()
    randomize(model.named_parameters(), 11)
    folder = ROOT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model.save_pretrained(folder)
    layers = dense_layers(options, config.hidden_size, folder)
    if "pooling" in options:
        write_modules(options, config.hidden_size, folder, layers)
    if "logits" in options:
        write_logit_score(options, folder)
    if "gguf" in options:
        if options["gguf"] == "t5encoder":
            text_source_gguf.write_gguf(folder / "model.gguf", model)
        elif options["gguf"] == "gemma-embedding":
            decoder_poolers.write_gemma_gguf(folder, model, layers, WINDOW)
        else:
            encoder_models.write_gguf(folder, options["gguf"], config, options["pooling"])
    golden = dict(transformers=tf.__version__, torch=torch.__version__.split("+")[0],
                  cases=make_cases(model, layers, options))
    if hasattr(model, "of_task"):
        golden["tasks"] = {task: make_cases(model.of_task(i), layers, options) for i, task in enumerate(model.TASKS)}
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")
    size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
    print(f"{name:22} {size / 1024:6.1f} KiB", flush=True)


def make_cases(model, layers, options):
    generator = torch.Generator().manual_seed(7)
    cases = []
    for length in LENGTHS:
        ids = torch.randint(3, VOCAB, (1, length), generator=generator)
        if hasattr(model.config, "step_tag_id"):
            ids[:, length // 2::5] = model.config.step_tag_id
        inputs = dict(input_ids=ids, attention_mask=torch.ones_like(ids))
        first_type_1 = -1
        if options.get("pairs"):
            first_type_1 = length // 2
            inputs["token_type_ids"] = (torch.arange(length) >= first_type_1).long()[None]
        rows = outcome(model, layers, options, inputs)
        cases.append(dict(ids=ids[0].tolist(), first_type_1_token=first_type_1,
                          rows=[[round(x, 7) for x in row] for row in rows.tolist()]))
    return cases


def main():
    wanted = sys.argv[1:]
    for name, (cls, config, options) in variants().items():
        if not wanted or name in wanted:
            make(name, cls, config, options)


if __name__ == "__main__":
    main()
