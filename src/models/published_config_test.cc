// Configurations of published checkpoints, with keys that nothing reads and with older names. The
// number of parameters of the resulting model shows whether they were read correctly.
#include <gtest/gtest.h>

#include <string_view>

#include "models/model_config.h"

namespace quire {
namespace {

struct Published {
  std::string_view family;
  double billions;  // of parameters
  int64_t max_model_len;
  std::string_view text;
};

constexpr Published kPublished[] = {
    {"dbrx", 131.6, 32768,
     R"({"architectures": ["DbrxForCausalLM"], "attn_config": {"clip_qkv": 8, "kv_n_heads": 8, "model_type": "",
         "rope_theta": 500000}, "d_model": 6144, "emb_pdrop": 0.0, "ffn_config": {"ffn_hidden_size": 10752,
         "model_type": "", "moe_jitter_eps": 0, "moe_loss_weight": 0.05, "moe_num_experts": 16, "moe_top_k": 4},
         "initializer_range": 0.02, "max_seq_len": 32768, "model_type": "dbrx", "n_heads": 48, "n_layers": 40,
         "output_router_logits": false, "resid_pdrop": 0.0, "router_aux_loss_coef": 0.05, "tie_word_embeddings": false,
         "torch_dtype": "bfloat16", "vocab_size": 100352})"},
    {"bitnet", 2.41, 4096,
     R"({"architectures": ["BitNetForCausalLM"], "bos_token_id": 128000, "hidden_act": "relu2", "hidden_size": 2560,
         "initializer_range": 0.02, "intermediate_size": 6912, "max_position_embeddings": 4096, "model_type": "bitnet",
         "rms_norm_eps": 1e-05, "num_attention_heads": 20, "num_hidden_layers": 30, "num_key_value_heads": 5,
         "rope_theta": 500000.0, "tie_word_embeddings": true, "torch_dtype": "bfloat16", "vocab_size": 128256,
         "quantization_config": {"quant_method": "bitnet", "linear_class": "autobitlinear",
                                 "quantization_mode": "offline"}})"},
    {"persimmon", 9.4, 16384,
     R"({"architectures": ["PersimmonForCausalLM"], "hidden_act": "relu2", "hidden_size": 4096,
         "intermediate_size": 16384, "layer_norm_eps": 1e-05, "max_position_embeddings": 16384,
         "model_type": "persimmon", "num_attention_heads": 64, "num_hidden_layers": 36, "num_key_value_heads": 64,
         "partial_rotary_factor": 0.5, "qk_layernorm": true, "rope_scaling": null, "rope_theta": 25000.0,
         "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 262144})"},
    {"gptj", 6.05, 2048,
     R"({"activation_function": "gelu_new", "architectures": ["GPTJForCausalLM"], "attn_pdrop": 0.0,
         "gradient_checkpointing": false, "layer_norm_epsilon": 1e-05, "model_type": "gptj", "n_embd": 4096, "n_head": 16,
         "n_inner": null, "n_layer": 28, "n_positions": 2048, "rotary": true, "rotary_dim": 64,
         "scale_attn_weights": true, "tie_word_embeddings": false, "use_cache": true, "vocab_size": 50400})"},
    {"codegen", 0.357, 2048,
     R"({"activation_function": "gelu_new", "model_type": "codegen", "n_ctx": 2048, "n_embd": 1024, "n_head": 16,
         "n_inner": null, "n_layer": 20, "n_positions": 2048, "rotary_dim": 32, "torch_dtype": "float16",
         "vocab_size": 51200})"},
    {"gpt_bigcode", 15.5, 8192,
     R"({"activation_function": "gelu", "attention_softmax_in_fp32": true, "model_type": "gpt_bigcode",
         "multi_query": true, "n_embd": 6144, "n_head": 48, "n_inner": 24576, "n_layer": 40, "n_positions": 8192,
         "scale_attention_softmax_in_fp32": true, "vocab_size": 49152, "inference_runner": 0})"},
    {"gpt_neo", 0.0685, 2048,
     R"({"activation_function": "gelu_new", "attention_layers": ["global", "local", "global", "local"],
         "attention_types": [[["global", "local"], 2]], "hidden_size": 768, "intermediate_size": null,
         "max_position_embeddings": 2048, "model_type": "gpt_neo", "num_heads": 16, "num_layers": 4,
         "vocab_size": 50257, "window_size": 256})"},
    {"internlm2", 7.74, 65536,
     R"({"architectures": ["InternLM2ForCausalLM"], "attn_implementation": "eager", "bias": false, "hidden_act": "silu",
         "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "internlm2",
         "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
         "rope_scaling": {"type": "dynamic", "factor": 2.0}, "rope_theta": 1000000, "tie_word_embeddings": false,
         "torch_dtype": "bfloat16", "vocab_size": 92544})"},
    {"qwen", 7.72, 8192,
     R"({"bf16": true, "emb_dropout_prob": 0.0, "hidden_size": 4096, "intermediate_size": 22016, "kv_channels": 128,
         "layer_norm_epsilon": 1e-06, "max_position_embeddings": 32768, "model_type": "qwen", "no_bias": true,
         "num_attention_heads": 32, "num_hidden_layers": 32, "onnx_safe": null, "rotary_emb_base": 10000,
         "rotary_pct": 1.0, "scale_attn_weights": true, "seq_length": 8192, "tie_word_embeddings": false,
         "use_dynamic_ntk": true, "use_flash_attn": "auto", "use_logn_attn": true, "vocab_size": 151936})"},
    {"chatglm", 6.24, 8192,
     R"({"add_bias_linear": false, "add_qkv_bias": true, "apply_query_key_layer_scaling": true,
         "apply_residual_connection_post_layernorm": false, "attention_softmax_in_fp32": true, "bias_dropout_fusion": true,
         "ffn_hidden_size": 13696, "fp32_residual_connection": false, "hidden_size": 4096, "kv_channels": 128,
         "layernorm_epsilon": 1e-05, "model_type": "chatglm", "multi_query_attention": true, "multi_query_group_num": 2,
         "num_attention_heads": 32, "num_layers": 28, "original_rope": true, "padded_vocab_size": 65024,
         "post_layer_norm": true, "quantization_bit": 0, "rmsnorm": true, "seq_length": 8192,
         "tie_word_embeddings": false, "torch_dtype": "float16", "use_cache": true})"},
    {"exaone", 2.41, 32768,
     R"({"activation_function": "silu", "architectures": ["ExaoneForCausalLM"], "embed_dropout": 0.0, "head_dim": 80,
         "hidden_size": 2560, "intermediate_size": 7168, "layer_norm_epsilon": 1e-05, "max_position_embeddings": 32768,
         "model_type": "exaone", "num_attention_heads": 32, "num_key_value_heads": 8, "num_layers": 30,
         "rope_scaling": {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                          "original_max_position_embeddings": 8192, "rope_type": "llama3"},
         "rope_theta": 1000000, "tie_word_embeddings": true, "torch_dtype": "bfloat16", "vocab_size": 102400})"},
    {"orion", 14.5, 4096,
     R"({"attention_bias": false, "hidden_act": "silu", "hidden_size": 5120, "intermediate_size": 15360,
         "max_position_embeddings": 4096, "max_sequence_length": 4096, "model_type": "orion", "num_attention_heads": 40,
         "num_hidden_layers": 40, "num_key_value_heads": 40, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
         "rope_scaling": null, "rope_theta": 10000.0, "tie_word_embeddings": false, "vocab_size": 84608})"},
    {"xverse", 7.3, 8192,
     R"({"architectures": ["XverseForCausalLM"], "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 10944,
         "max_position_embeddings": 8192, "max_tokenizer_truncation": 6144, "model_type": "xverse",
         "num_attention_heads": 32, "num_hidden_layers": 32, "rms_norm_eps": 1e-06, "torch_dtype": "bfloat16",
         "vocab_size": 100534})"},
    {"olmo", 1.18, 2048,
     R"({"architectures": ["OlmoForCausalLM"], "attention_bias": false, "clip_qkv": null, "hidden_size": 2048,
         "intermediate_size": 8192, "max_position_embeddings": 2048, "model_type": "olmo", "num_attention_heads": 16,
         "num_hidden_layers": 16, "num_key_value_heads": 16, "rope_scaling": null, "rope_theta": 10000.0,
         "tie_word_embeddings": true, "vocab_size": 50304})"},
    {"openelm", 0.27, 2048,
     R"({"activation_fn_name": "swish", "ffn_dim_divisor": 256, "ffn_multipliers": [0.5, 0.73, 0.97, 1.2, 1.43, 1.67, 1.9,
         2.13, 2.37, 2.6, 2.83, 3.07, 3.3, 3.53, 3.77, 4.0], "ffn_with_glu": true, "head_dim": 64,
         "max_context_length": 2048, "model_dim": 1280, "model_type": "openelm", "normalization_layer_name": "rms_norm",
         "normalize_qk_projections": true, "num_gqa_groups": 4, "num_kv_heads": [3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 5, 5,
         5, 5], "num_query_heads": [12, 12, 12, 12, 12, 16, 16, 16, 16, 16, 16, 16, 20, 20, 20, 20],
         "num_transformer_layers": 16, "qkv_multipliers": [0.5, 1.0], "rope_freq_constant": 10000,
         "rope_max_length": 4096, "share_input_output_layers": true, "vocab_size": 32000})"},
    {"deepseek", 16.4, 4096,
     R"({"architectures": ["DeepseekForCausalLM"], "attention_bias": false, "aux_loss_alpha": 0.001,
         "first_k_dense_replace": 1, "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 10944,
         "max_position_embeddings": 4096, "model_type": "deepseek", "moe_intermediate_size": 1408, "moe_layer_freq": 1,
         "n_routed_experts": 64, "n_shared_experts": 2, "norm_topk_prob": false, "num_attention_heads": 16,
         "num_experts_per_tok": 6, "num_hidden_layers": 28, "num_key_value_heads": 16, "pretraining_tp": 1,
         "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 10000, "scoring_func": "softmax",
         "tie_word_embeddings": false, "vocab_size": 102400})"},
    {"bailing_moe", 16.8, 16384,
     R"({"architectures": ["BailingMoeForCausalLM"], "first_k_dense_replace": 0, "head_dim": 128, "hidden_act": "silu",
         "hidden_size": 2048, "intermediate_size": 5632, "max_position_embeddings": 16384, "model_type": "bailing_moe",
         "moe_intermediate_size": 1408, "multi_gate": false, "norm_head": false, "norm_softmax": false,
         "norm_topk_prob": true, "num_attention_heads": 16, "num_experts": 64, "num_experts_per_tok": 6,
         "num_hidden_layers": 28, "num_key_value_heads": 4, "num_shared_experts": 2, "rms_norm_eps": 1e-06,
         "rope_scaling": null, "rope_theta": 600000, "tie_word_embeddings": false, "use_bias": false,
         "use_qkv_bias": false, "vocab_size": 126464})"},
    {"bailing_moe_v2", 16.3, 32768,
     R"({"architectures": ["BailingMoeV2ForCausalLM"], "first_k_dense_replace": 1, "head_dim": 128, "hidden_act": "silu",
         "hidden_size": 2048, "intermediate_size": 5120, "max_position_embeddings": 32768, "model_type": "bailing_moe_v2",
         "moe_intermediate_size": 512, "moe_router_enable_expert_bias": true, "n_group": 8, "norm_topk_prob": true,
         "num_attention_heads": 16, "num_experts": 256, "num_experts_per_tok": 8, "num_hidden_layers": 20,
         "num_key_value_heads": 4, "num_nextn_predict_layers": 0, "num_shared_experts": 1, "partial_rotary_factor": 0.5,
         "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 600000, "rotary_dim": 64, "routed_scaling_factor": 2.5,
         "score_function": "sigmoid", "tie_word_embeddings": false, "topk_group": 4, "use_bias": false,
         "use_qk_norm": true, "use_qkv_bias": false, "vocab_size": 157184})"},
    {"deepseek_v32", 671.9, 163840,
     R"({"architectures": ["DeepseekV32ForCausalLM"], "attention_bias": false, "ep_size": 1, "first_k_dense_replace": 3,
         "hidden_act": "silu", "hidden_size": 7168, "index_head_dim": 128, "index_n_heads": 64, "index_topk": 2048,
         "intermediate_size": 18432, "kv_lora_rank": 512, "max_position_embeddings": 163840, "model_type": "deepseek_v32",
         "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8, "n_routed_experts": 256, "n_shared_experts": 1,
         "norm_topk_prob": true, "num_attention_heads": 128, "num_experts_per_tok": 8, "num_hidden_layers": 61,
         "num_key_value_heads": 128, "num_nextn_predict_layers": 1, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
         "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06, "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40,
         "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096, "type": "yarn"},
         "rope_theta": 10000, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "tie_word_embeddings": false,
         "topk_group": 4, "topk_method": "noaux_tc", "v_head_dim": 128, "vocab_size": 129280})"},
};

TEST(PublishedConfig, IsOfTheSizeThatItsNameSays) {
  for (const Published& published : kPublished) {
    const auto config = parse_model_config(published.text);
    ASSERT_TRUE(config.ok()) << config.status().message();
    EXPECT_EQ(config->family->name, published.family);
    EXPECT_EQ(config->max_model_len(), published.max_model_len) << published.family;
    const auto spec = make_decoder_spec(*config, config->max_model_len(), DType::kBF16);
    ASSERT_TRUE(spec.ok()) << spec.status().message();
    EXPECT_NEAR(static_cast<double>(spec->num_parameters()) / 1e9, published.billions,
                0.01 * published.billions)
        << published.family;
  }
}

// Three of the 80 blocks of the model with 49 billion parameters.
TEST(PublishedConfig, BlocksOfNemotronSayWhatTheyLack) {
  const auto config =
      parse_model_config(R"({"architectures": ["DeciLMForCausalLM"], "model_type": "nemotron-nas",
      "attention_bias": false, "hidden_act": "silu", "hidden_size": 8192, "intermediate_size": null,
      "num_attention_heads": 64, "num_key_value_heads": null, "num_hidden_layers": 3, "vocab_size": 128256,
      "max_position_embeddings": 131072, "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "rope_scaling": {"factor": 8.0,
      "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"},
      "block_configs": [
        {"attention": {"n_heads_in_group": 8, "no_op": false, "num_sink_tokens": null, "replace_with_linear": false,
                       "sparsify": null, "unshifted_sink": false, "use_prefill_window_in_sink_attention": false,
                       "window_length": null},
         "ffn": {"ffn_mult": 2.625, "no_op": false, "replace_with_linear": false, "sparsify": null}},
        {"attention": {"n_heads_in_group": null, "no_op": true, "replace_with_linear": false},
         "ffn": {"ffn_mult": 5.25, "no_op": false, "replace_with_linear": false}},
        {"attention": {"n_heads_in_group": 16, "no_op": false, "replace_with_linear": false},
         "ffn": {"ffn_mult": null, "no_op": true, "replace_with_linear": false}}]})");
  ASSERT_TRUE(config.ok()) << config.status().message();
  const auto spec = make_decoder_spec(*config, 4096, DType::kBF16);
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  EXPECT_EQ(spec->layers[0].attention.num_kv_heads, 8);
  EXPECT_EQ(spec->layers[0].ffn.intermediate_size, 14336);
  EXPECT_FALSE(spec->layers[1].attention.any());
  EXPECT_EQ(spec->layers[1].ffn.intermediate_size, 28672);
  EXPECT_EQ(spec->layers[2].attention.num_kv_heads, 4);
  EXPECT_FALSE(spec->layers[2].ffn.any());
}

}  // namespace
}  // namespace quire
