// What a decoder-only transformer is made of, as plain data: the one forward pass (nn/decoder.h)
// reads it, models/ fills it from a configuration. Layers may differ in everything that LayerSpec
// holds. Shape letters: E hidden, F ffn, V vocabulary, Hq and Hkv heads, D head dim.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/api/activation.h"
#include "kernels/api/kv_cache.h"
#include "nn/rope.h"

namespace quire {

enum class NormKind : uint8_t { kRms, kLayer };  // kLayer norms have a bias

struct AttentionSpec {
  int32_t num_heads = 0;       // Hq
  int32_t num_kv_heads = 0;    // Hkv
  int32_t head_dim = 0;        // D
  int32_t sliding_window = 0;  // tokens a query sees, itself included; 0: all
  float scale = 1.0f;          // of scores
  float soft_cap = 0.0f;       // 0: none
  RopeStyle rope_style = RopeStyle::kNeox;
  int32_t rope_index = 0;  // into DecoderSpec::ropes; unused when rope_style is kNone
  bool qk_norm = false;    // RMSNorm per head on q and k
  bool qkv_bias = false;
  bool o_bias = false;

  int64_t q_rows() const { return int64_t{num_heads} * head_dim; }
  int64_t kv_rows() const { return int64_t{num_kv_heads} * head_dim; }
  int64_t qkv_rows() const { return q_rows() + 2 * kv_rows(); }
};

struct FfnSpec {
  int64_t intermediate_size = 0;  // F
  Activation activation = Activation::kSilu;
  bool gated = true;  // down(act(gate(x)) * up(x)), otherwise down(act(up(x)))
  bool bias = false;  // of all its projections

  // Rows of the input projection.
  int64_t gate_up_rows() const { return intermediate_size * (gated ? 2 : 1); }
};

struct LayerSpec {
  AttentionSpec attention;
  FfnSpec ffn;
};

struct DecoderSpec {
  int64_t vocab_size = 0;   // V
  int64_t hidden_size = 0;  // E
  std::vector<LayerSpec> layers;
  std::vector<RopeSpec> ropes;
  int64_t num_positions = 0;  // rows of the learned position table; 0: none

  NormKind norm = NormKind::kRms;
  float norm_eps = 1e-6f;
  bool sandwich_norms = false;  // norms on the outputs of attention and MLP too

  float embedding_scale = 1.0f;
  float final_soft_cap = 0.0f;  // of logits; 0: none
  bool tied_head = false;       // the head reads the token embedding

  int64_t num_parameters() const;
};

}  // namespace quire
