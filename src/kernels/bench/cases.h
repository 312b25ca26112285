// Each op has one table of cases. Tests run the small ones, the benchmark the shapes of models.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "kernels/api/linear.h"

namespace quire::kernel_cases {

struct LinearCase {
  int64_t m, n, k;
  bool bias = false;
  bool accumulate = false;
  bool transposed = false;
};

// Odd sizes on purpose: one element, K and N that are no multiple of a block size, more rows than
// several row blocks.
inline const std::vector<LinearCase>& linear_cases() {
  static const std::vector<LinearCase> cases = {
      {1, 1, 1},
      {1, 16, 2, true},
      {2, 33, 7, false, true},
      {3, 31, 64, true, true},
      {5, 64, 65},
      {7, 100, 130, true},
      {12, 32, 48},
      {13, 96, 33, true, true},
      {24, 17, 256},
      {31, 65, 100},
      {32, 128, 64, true},
      {67, 40, 96, false, true},
      {1, 320, 512, true},
      {4, 48, 300, true, false, true},
      {25, 70, 31, false, true, true},
  };
  return cases;
}

struct AttentionCase {
  int32_t num_heads, num_kv_heads, head_dim, block_size;
  std::vector<int32_t> query_lens;    // per request
  std::vector<int32_t> context_lens;  // tokens already in the cache
  int32_t sliding_window = 0;
  float soft_cap = 0.0f;
  bool sinks = false;
  bool alibi = false;
  bool causal = true;
  int32_t latent_dim = 0;  // above 0: values are the first dims of keys
  bool window_is_chunk = false;
  bool has_images = false;
  int32_t bias_reach = 0;  // above 0: biases by position

  // Returns the end of the positions that a token sees. 11 of every 16 positions are an image.
  int32_t seen_end(int32_t position, int32_t seq_len) const {
    constexpr int32_t kPeriod = 16, kImage = 11;
    const int32_t first = position / kPeriod * kPeriod;
    const bool is_image = has_images && position - first < kImage;
    return is_image ? std::min(first + kImage, seq_len) : position + 1;
  }
  int32_t value_dim() const { return latent_dim > 0 ? latent_dim : head_dim; }
};

inline const std::vector<AttentionCase>& attention_cases() {
  static const std::vector<AttentionCase> cases = {
      {1, 1, 8, 8, {1}, {0}},
      {4, 4, 16, 16, {1, 1, 3}, {0, 70, 5}},
      {4, 2, 24, 8, {5, 1}, {0, 130}},
      {8, 2, 64, 16, {1, 1, 1, 1}, {0, 63, 64, 200}},
      {14, 2, 64, 16, {1, 9}, {100, 31}},
      {7, 1, 80, 32, {1, 40}, {300, 0}},
      {6, 3, 96, 64, {70}, {3}},
      {2, 1, 112, 128, {17, 1}, {120, 255}},
      {4, 1, 128, 16, {33, 1}, {0, 90}},
      {2, 2, 256, 16, {3, 1}, {66, 5}},
      {3, 1, 4, 8, {6}, {9}},
      {4, 2, 64, 16, {1, 20}, {500, 100}, 48},
      {8, 4, 32, 16, {70, 1, 2}, {0, 200, 63}, 16, 30.0f},
      {4, 2, 64, 24, {5, 1}, {90, 40}, 0, 0.0f, true},
      {8, 1, 64, 16, {1}, {2100}},
      // Images whose tokens see each other: whole, continued in a later chunk, across windows and
      // splits.
      {4, 2, 32, 16, {70, 3, 1}, {0, 500, 40}, 0, 0.0f, false, false, true, 0, false, true},
      {8, 1, 64, 16, {40, 9}, {1000, 64}, 20, 30.0f, false, false, true, 0, false, true},
      {3, 3, 80, 32, {100}, {500}, 0, 0.0f, true, false, true, 0, false, true},
      {4, 2, 32, 16, {3, 1}, {1022, 1500}, 700, 0.0f, true},
      {96, 1, 16, 16, {2, 1}, {40, 3}},
      // Windows on both sides: within one split, cut at the ends, and across splits.
      {4, 2, 32, 16, {70, 3}, {0, 0}, 20, 0.0f, false, false, false},
      {8, 1, 64, 16, {40, 9}, {1000, 64}, 33, 30.0f, true, false, false},
      {3, 3, 80, 32, {700}, {0}, 300, 0.0f, false, false, false},
      // Biases by position: near and far, before and after the query.
      {4, 2, 32, 16, {70, 3}, {0, 0}, 0, 0.0f, false, false, false, 0, false, false, 9},
      {8, 1, 64, 16, {40, 9}, {1000, 64}, 0, 30.0f, true, false, true, 0, false, false, 128},
      {3, 3, 80, 32, {700}, {0}, 0, 0.0f, false, false, false, 0, false, false, 70},
      // Tiles of 16 rows: just below, at and above one and two, over a window and several splits.
      {5, 1, 96, 16, {3, 1}, {700, 61}, 600},
      {16, 1, 48, 8, {1, 2}, {130, 15}},
      {8, 2, 160, 16, {5, 9}, {60, 512}, 0, 50.0f},
      // Wide heads.
      {2, 1, 512, 16, {1, 20}, {70, 500}},
      {20, 1, 576, 16, {1, 3}, {130, 20}},
      {2, 2, 320, 24, {5}, {67}, 48},
      // ALiBi.
      {5, 1, 64, 16, {1, 40}, {900, 100}, 0, 0.0f, false, true},
      {8, 4, 96, 16, {70, 1}, {3, 61}, 40, 20.0f, true, true},
      {4, 4, 24, 8, {5, 1}, {0, 130}, 0, 0.0f, false, true},
      // Every token sees all tokens.
      {4, 2, 64, 16, {1, 70, 600}, {0, 0, 0}, 0, 0.0f, false, false, false},
      {6, 3, 24, 8, {5, 33}, {0, 0}, 0, 30.0f, true, false, false},
      // Every token sees all tokens, with ALiBi on both sides.
      {6, 6, 64, 16, {1, 70, 600}, {0, 0, 0}, 0, 0.0f, false, true, false},
      {5, 1, 24, 8, {33, 9}, {0, 130}, 20, 30.0f, true, true, false},
      // Chunked attention over tiles and splits, with queries that begin, end and continue in other
      // chunks.
      {4, 2, 64, 16, {1, 90}, {96, 20}, 32, 0.0f, false, false, true, 0, true},
      {5, 1, 96, 16, {70, 3, 1}, {1000, 700, 699}, 700, 0.0f, true, false, true, 0, true},
      {16, 1, 64, 16, {200, 1}, {0, 48}, 48, 20.0f, false, false, true, 0, true},
      // Latents: fewer rows than a tile, exactly one tile, and more; no multiple of a block size.
      {4, 1, 20, 8, {1, 9}, {70, 3}, 0, 0.0f, false, false, true, 16},
      {16, 1, 576, 16, {1, 5}, {700, 3}, 0, 0.0f, false, false, true, 512},
      {20, 1, 96, 24, {1, 40}, {131, 0}, 0, 0.0f, false, false, true, 64},
      {6, 1, 160, 32, {2, 1}, {600, 1030}, 0, 0.0f, true, false, true, 128},
  };
  return cases;
}

// --- shapes of models, for the benchmark ---

struct NamedLinear {
  const char* name;
  int64_t n, k;
  bool is_gated = false;  // the activation of the first half, times the second
};
inline const std::vector<NamedLinear>& model_linears() {
  static const std::vector<NamedLinear> shapes = {
      {"llama-1b qkv", 3072, 2048},          {"llama-1b o", 2048, 2048},
      {"llama-1b gate_up", 16384, 2048},     {"llama-1b down", 2048, 8192},
      {"llama-1b gated", 16384, 2048, true}, {"llama-1b head", 128256, 2048},
      {"qwen-0.5b qkv", 1152, 896},          {"qwen-0.5b gate_up", 9728, 896},
      {"qwen-0.5b down", 896, 4864},
  };
  return shapes;
}

// Numbers of rows in a step: decode batches, then a prompt.
inline const std::vector<int64_t>& model_rows() {
  static const std::vector<int64_t> rows = {1, 2, 4, 8, 16, 32, 64, 128, 512};
  return rows;
}
inline std::string name_of(DType dtype, ComputeType compute) {
  const char* activations = compute == ComputeType::kInt8   ? "int8"
                            : compute == ComputeType::kBF16 ? "bf16"
                                                            : "f32";
  return std::string(to_string(dtype)) + "*" + activations;
}

struct NamedAttention {
  const char* name;
  int32_t num_heads, num_kv_heads, head_dim, num_layers;
  int32_t latent_dim = 0;  // above 0: values are the first dims of keys

  int32_t value_dim() const { return latent_dim > 0 ? latent_dim : head_dim; }
};
inline const std::vector<NamedAttention>& model_attentions() {
  static const std::vector<NamedAttention> shapes = {{"llama-1b", 32, 8, 64, 16},
                                                     {"qwen-0.5b", 14, 2, 64, 24},
                                                     {"llama-8b", 32, 8, 128, 32},
                                                     {"deepseek-v2-lite", 16, 1, 576, 27, 512},
                                                     {"deepseek-v3", 128, 1, 576, 61, 512}};
  return shapes;
}

struct NamedExperts {
  const char* name;
  int32_t num_experts, per_token;
  int64_t hidden, inside;
};
inline const std::vector<NamedExperts>& model_experts() {
  static const std::vector<NamedExperts> shapes = {{"qwen3-30b-a3b", 128, 8, 2048, 768},
                                                   {"gpt-oss-20b", 32, 4, 2880, 2880}};
  return shapes;
}

}  // namespace quire::kernel_cases
