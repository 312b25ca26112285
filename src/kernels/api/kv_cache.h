// The paged KV cache of one layer, and the op that fills it.
//
// Layout, stated here once: K and V each hold, block after block and KV head after KV head, S x D elements of `dtype`;
//   key(block b, head h, offset s, dim d)   = key[b * block_stride + (h * D + d) * S + s]     K is stored transposed
//   value(block b, head h, offset s, dim d) = value[b * block_stride + (h * S + s) * D + d]
// so that scores are built 16 positions at a time and the weighted sum D lanes at a time, without horizontal sums.
// A slot is block_id * S + offset.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "device/stream.h"

namespace quire {

struct KvCacheView {
  void* key = nullptr;
  void* value = nullptr;
  DType dtype = DType::kBF16;  // f32, bf16 or f16
  int64_t block_stride = 0;    // elements from one block to the next
  int32_t block_size = 16;     // S, a multiple of 8
  int32_t num_kv_heads = 0;    // Hkv
  int32_t head_dim = 0;        // D
};

enum class RopeStyle : uint8_t {
  kNone,
  kNeox,         // pairs (i, i + rotary_dim/2): Hugging Face layouts
  kInterleaved,  // pairs (2i, 2i + 1): GPT-J, GGUF llama
};

// In one pass over the fused projection: optional per-head RMSNorm of q and k, rotary embedding of q and k in place,
// and k, v written to their slots.
struct QkvToCacheParams {
  float* qkv = nullptr;                   // [T, (Hq + 2 Hkv) * D]: q heads, k heads, v heads; q is left rotated in place
  int64_t qkv_stride = 0;                 // elements between rows
  const float* q_norm_weight = nullptr;   // [D] or null
  const float* k_norm_weight = nullptr;   // [D] or null
  float norm_eps = 1e-6f;
  RopeStyle rope_style = RopeStyle::kNeox;
  int32_t rotary_dim = 0;                 // <= D, even; the rest of a head passes unchanged
  const float* cos = nullptr;             // [T, rotary_dim / 2], attention scaling folded in
  const float* sin = nullptr;             // [T, rotary_dim / 2]
  const int64_t* slot_mapping = nullptr;  // [T]
  KvCacheView kv{};
  int64_t num_tokens = 0;
  int32_t num_heads = 0;                  // Hq
};
void qkv_to_cache(Stream& stream, const QkvToCacheParams& params);

// cos/sin of position * inv_freq[i], times `scale`, for every token of a step; double precision inside.
struct RopeTableParams {
  const int32_t* positions = nullptr;  // [T]
  const double* inv_freq = nullptr;    // [rotary_dim / 2]
  double scale = 1.0;                  // attention scaling of YaRN and LongRoPE
  float* cos = nullptr;                // [T, rotary_dim / 2]
  float* sin = nullptr;                // [T, rotary_dim / 2]
  int64_t num_tokens = 0;
  int32_t rotary_dim = 0;
};
void rope_table(Stream& stream, const RopeTableParams& params);

// Copies whole blocks of one layer: destination[i] = source[i], in order.
struct KvBlockCopyParams {
  KvCacheView kv{};
  const int32_t* source = nullptr;       // [n] block ids
  const int32_t* destination = nullptr;  // [n]
  int64_t num_copies = 0;
};
void kv_block_copy(Stream& stream, const KvBlockCopyParams& params);

}  // namespace quire
