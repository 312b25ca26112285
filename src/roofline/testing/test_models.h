// For tests: configurations of published models, with those fields of their config.json on which
// cost depends.
#pragma once

#include "roofline/shape/model_shape.h"

namespace quire::test {

inline constexpr const char* kLlama31_8B = R"({"model_type": "llama", "hidden_size": 4096,
  "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
  "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 131072,
  "tie_word_embeddings": false, "torch_dtype": "bfloat16"})";

inline constexpr const char* kQwen3_30B_A3B = R"({"model_type": "qwen3_moe", "hidden_size": 2048,
  "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
  "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128,
  "num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": [],
  "use_sliding_window": false, "sliding_window": null, "vocab_size": 151936,
  "max_position_embeddings": 40960, "tie_word_embeddings": false, "torch_dtype": "bfloat16"})";

inline constexpr const char* kDeepSeekV2Lite = R"({"model_type": "deepseek_v2",
  "hidden_size": 2048, "num_hidden_layers": 27, "num_attention_heads": 16,
  "num_key_value_heads": 16, "kv_lora_rank": 512, "q_lora_rank": null, "qk_nope_head_dim": 128,
  "qk_rope_head_dim": 64, "v_head_dim": 128, "intermediate_size": 10944,
  "moe_intermediate_size": 1408, "n_routed_experts": 64, "n_shared_experts": 2,
  "num_experts_per_tok": 6, "first_k_dense_replace": 1, "moe_layer_freq": 1,
  "vocab_size": 102400, "max_position_embeddings": 163840, "tie_word_embeddings": false,
  "torch_dtype": "bfloat16"})";

inline constexpr const char* kGemma2_9B = R"({"model_type": "gemma2", "hidden_size": 3584,
  "num_hidden_layers": 42, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256,
  "intermediate_size": 14336, "sliding_window": 4096, "vocab_size": 256000,
  "max_position_embeddings": 8192, "torch_dtype": "bfloat16"})";

inline constexpr const char* kMixtral8x7B = R"({"model_type": "mixtral", "hidden_size": 4096,
  "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
  "intermediate_size": 14336, "num_local_experts": 8, "num_experts_per_tok": 2,
  "sliding_window": null, "vocab_size": 32000, "max_position_embeddings": 32768,
  "tie_word_embeddings": false, "torch_dtype": "bfloat16"})";

inline constexpr const char* kDeepSeekV3 = R"({"model_type": "deepseek_v3", "hidden_size": 7168,
  "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128,
  "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
  "v_head_dim": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048,
  "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8,
  "first_k_dense_replace": 3, "moe_layer_freq": 1, "vocab_size": 129280,
  "max_position_embeddings": 163840, "tie_word_embeddings": false, "torch_dtype": "bfloat16"})";

inline constexpr const char* kGptOss120B = R"({"model_type": "gpt_oss", "hidden_size": 2880,
  "num_hidden_layers": 36, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
  "intermediate_size": 2880, "num_local_experts": 128, "num_experts_per_tok": 4,
  "sliding_window": 128, "vocab_size": 201088, "max_position_embeddings": 131072,
  "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention",
    "sliding_attention", "full_attention", "sliding_attention", "full_attention",
    "sliding_attention", "full_attention", "sliding_attention", "full_attention",
    "sliding_attention", "full_attention", "sliding_attention", "full_attention",
    "sliding_attention", "full_attention", "sliding_attention", "full_attention",
    "sliding_attention", "full_attention", "sliding_attention", "full_attention",
    "sliding_attention", "full_attention", "sliding_attention", "full_attention",
    "sliding_attention", "full_attention", "sliding_attention", "full_attention",
    "sliding_attention", "full_attention", "sliding_attention", "full_attention"],
  "tie_word_embeddings": false, "torch_dtype": "bfloat16"})";

inline ModelShape model_of(const char* config) { return parse_model_shape(config).value(); }

}  // namespace quire::test
