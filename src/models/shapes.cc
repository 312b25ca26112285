#include "models/shapes.h"

#include <filesystem>
#include <fstream>
#include <iterator>

namespace quire {
namespace {

struct ShapeRow {
  std::string_view name;
  std::string_view config;  // in the form of config.json
};

constexpr ShapeRow kShapes[] = {
    {"llama-3.2-1b",
     R"({"model_type": "llama", "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192,
         "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
         "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": true,
         "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                          "original_max_position_embeddings": 8192}})"},
    {"smollm2-135m",
     R"({"model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536,
         "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 64,
         "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 100000.0,
         "tie_word_embeddings": true})"},
    {"llama-3.1-8b",
     R"({"model_type": "llama", "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336,
         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
         "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
         "tie_word_embeddings": false,
         "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                          "original_max_position_embeddings": 8192}})"},
    {"qwen2.5-0.5b",
     R"({"model_type": "qwen2", "vocab_size": 151936, "hidden_size": 896, "intermediate_size": 4864,
         "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
         "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
         "tie_word_embeddings": true})"},
    {"qwen3-0.6b",
     R"({"model_type": "qwen3", "vocab_size": 151936, "hidden_size": 1024, "intermediate_size": 3072,
         "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
         "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
         "tie_word_embeddings": true})"},
    {"qwen3-8b",
     R"({"model_type": "qwen3", "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 12288,
         "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
         "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
         "tie_word_embeddings": false})"},
    {"gemma-3-1b",
     R"({"model_type": "gemma3_text", "vocab_size": 262144, "hidden_size": 1152, "intermediate_size": 6912,
         "num_hidden_layers": 26, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256,
         "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "sliding_window": 512,
         "query_pre_attn_scalar": 256})"},
    // The layers of Qwen3-30B-A3B, four of its 48.
    {"qwen3-30b-a3b-4l",
     R"({"model_type": "qwen3_moe", "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144,
         "num_hidden_layers": 4, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
         "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "norm_topk_prob": true,
         "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
         "tie_word_embeddings": false})"},
    // The layers of DeepSeek-V2-Lite, its first and three of its other 26.
    {"deepseek-v2-lite-4l",
     R"({"model_type": "deepseek_v2", "vocab_size": 102400, "hidden_size": 2048, "intermediate_size": 10944,
         "num_hidden_layers": 4, "num_attention_heads": 16, "n_routed_experts": 64, "num_experts_per_tok": 6,
         "n_shared_experts": 2, "moe_intermediate_size": 1408, "first_k_dense_replace": 1, "q_lora_rank": null,
         "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
         "topk_method": "greedy", "max_position_embeddings": 163840, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
         "tie_word_embeddings": false})"},
    // Two of the 24 layers of gpt-oss-20b: a window and sinks, experts with biases.
    {"gpt-oss-20b-2l",
     R"({"model_type": "gpt_oss", "vocab_size": 201088, "hidden_size": 2880, "intermediate_size": 2880,
         "num_hidden_layers": 2, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
         "num_local_experts": 32, "num_experts_per_tok": 4, "sliding_window": 128,
         "max_position_embeddings": 131072, "rope_theta": 150000.0, "tie_word_embeddings": false})"},
    // Four of the 32 layers of Qwen3.5-9B: three of gated DeltaNet and one of attention.
    {"qwen3.5-9b-4l",
     R"({"model_type": "qwen3_5_text", "vocab_size": 248320, "hidden_size": 4096, "intermediate_size": 12288,
         "num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 256,
         "max_position_embeddings": 32768, "tie_word_embeddings": false})"},
    // Half of the 48 layers of Mamba-2 1.3B.
    {"mamba2-1.3b-24l",
     R"({"model_type": "mamba2", "vocab_size": 50288, "hidden_size": 2048, "num_hidden_layers": 24, "num_heads": 64,
         "head_dim": 64, "n_groups": 1, "state_size": 128, "conv_kernel": 4, "tie_word_embeddings": true})"},
    // Half of the 48 layers of Mamba 1.4B: selective scans.
    {"mamba-1.4b-24l",
     R"({"model_type": "mamba", "vocab_size": 50280, "hidden_size": 2048, "intermediate_size": 4096,
         "num_hidden_layers": 24, "state_size": 16, "conv_kernel": 4, "time_step_rank": 128,
         "layer_norm_epsilon": 1e-5, "tie_word_embeddings": true})"},
    // LFM2: short convolutions beside attention.
    {"lfm2-1.2b",
     R"({"model_type": "lfm2", "vocab_size": 65536, "hidden_size": 2048, "intermediate_size": 12288,
         "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "conv_L_cache": 3,
         "full_attn_idxs": [2, 5, 8, 10, 12, 14], "block_multiple_of": 256, "block_auto_adjust_ff_dim": true,
         "max_position_embeddings": 128000, "norm_eps": 1e-5, "rope_theta": 1000000.0,
         "tie_word_embeddings": true})"},
    // An MLP without a gate, biases, learned positions.
    {"gpt2-xl-12l",
     R"({"model_type": "gpt2", "vocab_size": 50257, "n_embd": 1600, "n_layer": 12, "n_head": 25,
         "n_positions": 1024})"},
    // ALiBi.
    {"bloom-1b1",
     R"({"model_type": "bloom", "vocab_size": 250880, "hidden_size": 1536, "n_layer": 24, "n_head": 16,
         "seq_length": 2048})"},
    // Five of the 30 layers of Gemma 3n E2B, its first: four residual streams, sparse MLPs.
    {"gemma-3n-e2b-5l",
     R"({"model_type": "gemma3n_text", "vocab_size": 262400, "hidden_size": 2048, "intermediate_size": 8192,
         "num_hidden_layers": 5, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256,
         "num_kv_shared_layers": 0, "activation_sparsity_pattern": [0.95, 0.95, 0.95, 0.95, 0.95],
         "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "sliding_window": 512})"},
    // Twelve of the 38 layers of Zamba2 1.2B, with two uses of its block.
    {"zamba2-1.2b-12l",
     R"({"model_type": "zamba2", "vocab_size": 32000, "hidden_size": 2048, "intermediate_size": 8192,
         "num_hidden_layers": 12, "layers_block_type": ["mamba", "mamba", "mamba", "mamba", "mamba", "hybrid",
         "mamba", "mamba", "mamba", "mamba", "mamba", "hybrid"], "num_attention_heads": 32, "n_mamba_heads": 64,
         "mamba_d_state": 128, "mamba_ngroups": 1, "num_mem_blocks": 1, "adapter_rank": 128,
         "use_shared_attention_adapter": true, "use_mem_rope": true, "max_position_embeddings": 4096})"},
};

constexpr std::uintmax_t kMaxConfigBytes = 1 << 20;

Result<ModelConfig> read_shape(const std::string& path) {
  std::error_code error;
  const std::uintmax_t num_bytes = std::filesystem::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file) return not_found("shape: {}: expected a config.json that can be read", path);
  if (num_bytes > kMaxConfigBytes) {
    return invalid_argument("shape: {}: expected at most {} bytes, got {}", path, kMaxConfigBytes,
                            num_bytes);
  }
  const std::string text(std::istreambuf_iterator<char>(file), {});
  Result<ModelConfig> config = parse_model_config(text);
  if (!config.ok()) return config.status().with_context(path);
  config->quantization = {};  // weights are random, and packed as the options say
  return config;
}

}  // namespace

Result<ModelConfig> model_shape(std::string_view name) {
  if (name.ends_with(".json")) return read_shape(std::string(name));
  for (const ShapeRow& row : kShapes) {
    if (row.name == name) return parse_model_config(row.config);
  }
  return invalid_argument("shape: expected one of {} or the path of a config.json; got '{}'",
                          known_model_shapes(), name);
}

std::string known_model_shapes() {
  std::string list;
  for (const ShapeRow& row : kShapes) list.append(list.empty() ? "" : ", ").append(row.name);
  return list;
}

}  // namespace quire
