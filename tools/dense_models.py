"""Tiny dense models for tools/make_model_goldens.py: kin of GPT-2 and OLMo, and others with differences of their own."""

import transformers as tf

VOCAB = 160


def variants(common, rope):
    """name -> (config, stored dtype, options), as variants() of make_model_goldens."""
    gpt = dict(vocab_size=VOCAB, n_embd=32, n_layer=3, n_head=4, n_positions=128, bos_token_id=1, eos_token_id=2)
    heads = dict(vocab_size=VOCAB, hidden_size=32, max_position_embeddings=128, bos_token_id=1, eos_token_id=2)
    return {
        "gptj": (tf.GPTJConfig(**gpt, rotary_dim=4), "bfloat16", {}),
        "codegen": (tf.CodeGenConfig(**gpt, n_ctx=128, rotary_dim=6), "bfloat16", {}),
        "gpt_bigcode": (tf.GPTBigCodeConfig(**dict(gpt, n_layer=2)), "bfloat16", dict(gguf="starcoder")),
        "gpt_bigcode_many_heads": (tf.GPTBigCodeConfig(**dict(gpt, n_layer=2), n_inner=50, multi_query=False), "bfloat16", {}),
        "gpt_neo": (tf.GPTNeoConfig(**heads, num_layers=4, num_heads=4, window_size=9,
                                    attention_types=[[["global", "local"], 2]]), "bfloat16", {}),
        "biogpt": (tf.BioGptConfig(**heads, num_hidden_layers=3, num_attention_heads=4, intermediate_size=56),
                   "bfloat16", {}),
        "openai_gpt": (tf.OpenAIGPTConfig(**gpt), "bfloat16", {}),
        "granite_swa": (tf.GraniteSWAConfig(**common(num_hidden_layers=5, sliding_window=9, embedding_multiplier=3.0,
                                                     residual_multiplier=0.6, attention_multiplier=0.2,
                                                     logits_scaling=2.0,
                                                     layer_rope_theta=[10000, 10000, 0, 10000, 10000]), **rope()),
                        "bfloat16", {}),
        "olmo": (tf.OlmoConfig(**common(num_hidden_layers=2), **rope()), "bfloat16", dict(gguf="olmo")),
        "olmo_clipped": (tf.OlmoConfig(**common(num_hidden_layers=2, clip_qkv=0.8), **rope()), "bfloat16", dict(gguf="olmo")),
        "mpt_clipped": (tf.MptConfig(vocab_size=VOCAB, d_model=32, n_layers=2, n_heads=4, max_seq_len=256,
                                     attn_config=dict(clip_qkv=0.7)), "bfloat16", dict(gguf="mpt")),
        "hyperclovax": (tf.HyperCLOVAXConfig(**common(head_dim=12, embedding_multiplier=3.0, attention_multiplier=0.2,
                                                      logits_scaling=0.4), **rope()), "bfloat16", {}),
        "hyperclovax_plain": (tf.HyperCLOVAXConfig(**common(residual_multiplier=0.6, use_post_norm=False), **rope()),
                              "bfloat16", {}),
        "nanochat": (tf.NanoChatConfig(**common(), **rope()), "bfloat16", {}),
        "bitnet": (tf.BitNetConfig(**common(head_dim=8), **rope()), "bfloat16", {}),
        # GGUF files exist only for models with another activation.
        "bitnet_silu": (tf.BitNetConfig(**common(num_hidden_layers=2, hidden_act="silu"), **rope()), "bfloat16",
                        dict(gguf="bitnet")),
        "persimmon": (tf.PersimmonConfig(**heads, num_hidden_layers=3, num_attention_heads=4, intermediate_size=56,
                                         **rope(partial_rotary_factor=0.5)), "bfloat16", {}),
        "mimo": (tf.Qwen2Config(**common(num_hidden_layers=2), **rope()), "bfloat16", dict(model_type="mimo")),
        "iquestcoder": (tf.IQuestCoderConfig(**common(head_dim=12, num_hidden_layers=2), **rope()), "bfloat16", {}),
    }
