// The tensor names of most checkpoints. A family with other names lists the differences in a map of
// its own that has one of these as its base.
#pragma once

#include "weights/names/name_map.h"

namespace quire {

// Buffers of old checkpoints that nothing reads, and the parts of multimodal checkpoints beside the
// text model.
inline constexpr std::string_view kIgnoredTensors[] = {
    "rotary_emb.inv_freq",    "rope_freqs.",   "rope_factors_", "vision_tower.",
    "multi_modal_projector.", "vision_model.", "connector.",    "image_newline"};

// The names of Llama's Hugging Face checkpoints.
inline constexpr NameMapEntry kLlamaNameEntries[] = {
    {TensorRole::kTokenEmbedding, "embed_tokens"},
    {TensorRole::kFinalNorm, "norm"},
    {TensorRole::kLmHead, "lm_head"},
    {TensorRole::kInputNorm, "layers.{}.input_layernorm"},
    {TensorRole::kQ, "layers.{}.self_attn.q_proj"},
    {TensorRole::kK, "layers.{}.self_attn.k_proj"},
    {TensorRole::kV, "layers.{}.self_attn.v_proj"},
    {TensorRole::kO, "layers.{}.self_attn.o_proj"},
    {TensorRole::kQNorm, "layers.{}.self_attn.q_norm"},
    {TensorRole::kKNorm, "layers.{}.self_attn.k_norm"},
    {TensorRole::kPreMlpNorm, "layers.{}.post_attention_layernorm"},
    {TensorRole::kGate, "layers.{}.mlp.gate_proj"},
    {TensorRole::kUp, "layers.{}.mlp.up_proj"},
    {TensorRole::kDown, "layers.{}.mlp.down_proj"},
};
// The last two are the text model in a multimodal checkpoint, as older and newer tools save it.
inline constexpr NamePrefix kLlamaPrefixes[] = {{"model.", ""},
                                                {"", ""},
                                                {"language_model.model.", "language_model."},
                                                {"model.language_model.", ""},
                                                {"model.text_model.", ""}};
inline constexpr NameMap kLlamaNames{kLlamaNameEntries, kLlamaPrefixes, kIgnoredTensors};

// The names in GGUF files of any architecture. Fused projections are read where a file has them.
inline constexpr NameMapEntry kGgufNameEntries[] = {
    {TensorRole::kTokenEmbedding, "token_embd"},
    {TensorRole::kPositionEmbedding, "position_embd"},
    {TensorRole::kEmbeddingNorm, "token_embd_norm"},
    {TensorRole::kFinalNorm, "output_norm"},
    {TensorRole::kLmHead, "output"},
    {TensorRole::kInputNorm, "blk.{}.attn_norm"},
    {TensorRole::kQkv, "blk.{}.attn_qkv"},
    {TensorRole::kQ, "blk.{}.attn_q"},
    {TensorRole::kK, "blk.{}.attn_k"},
    {TensorRole::kV, "blk.{}.attn_v"},
    {TensorRole::kO, "blk.{}.attn_output"},
    {TensorRole::kQNorm, "blk.{}.attn_q_norm"},
    {TensorRole::kKNorm, "blk.{}.attn_k_norm"},
    {TensorRole::kPostAttentionNorm, "blk.{}.post_attention_norm"},
    {TensorRole::kPreMlpNorm, "blk.{}.ffn_norm"},
    {TensorRole::kGate, "blk.{}.ffn_gate"},
    {TensorRole::kUp, "blk.{}.ffn_up"},
    {TensorRole::kDown, "blk.{}.ffn_down"},
    {TensorRole::kPostMlpNorm, "blk.{}.post_ffw_norm"},
};
inline constexpr NamePrefix kGgufPrefixes[] = {{"", ""}};
inline constexpr NameMap kGgufNames{kGgufNameEntries, kGgufPrefixes, kIgnoredTensors};

// For files in which gate and up are one tensor.
inline constexpr NameMapEntry kGgufGateUpEntry[] = {{TensorRole::kGateUp, "blk.{}.ffn_up"}};
inline constexpr NameMap kGgufGateUpNames{kGgufGateUpEntry, kGgufPrefixes, kIgnoredTensors, 0.0f,
                                          &kGgufNames};

}  // namespace quire
