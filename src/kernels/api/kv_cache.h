// The paged KV cache of one layer, and the ops that fill it.
//
// Layout: K and V are arrays of blocks, a block is an array of KV heads, and a head of a block is
// S x D elements of `dtype` (S tokens of D dims).
//   f32, f16:         K as [D][S], V as [S][D]: scores are built 16 positions at a time and the
//                     weighted sum 16 dims at a time, without sums across lanes.
//   bf16, fp8, int8:  the same with the summed index in pairs, K as [D / 2][S][2], V as
//                     [S / 2][D][2]: the operand order of bf16 dot products (and of AMX tiles).
//   KvOrder::kTokenMajor (GPUs): K and V both as [S][D], of any type, because tensor cores load
//                     rows.
// key_index() and value_index() compute these places. A slot is block_id * S + offset.
//
// Quantized elements stand for code * scale, and a token's codes depend on that token alone:
//   fp8   has one scale per KV head, the model's own (key_scale, value_scale). Codes are rounded to
//         nearest even and saturate; NaN stays NaN.
//   int8  has codes -127 .. 127 and one bf16 scale per token and KV head, the smallest with which
//         the token's largest element fits. The scales [Hkv][S] of K follow the codes of K in each
//         block, and those of V the codes of V.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "device/stream.h"
#include "tensor/activations.h"

namespace quire {

enum class KvOrder : uint8_t { kCpu, kTokenMajor };

// The widest head that the CPU's kernels take: that of MLA's latent cache, 512 + 64.
inline constexpr int32_t kMaxAttentionHeadDim = 576;

struct KvCacheView {
  void* key = nullptr;
  void* value = nullptr;
  DType dtype = DType::kBF16;  // f32, bf16, f16, fp8 or int8
  int64_t block_stride = 0;    // elements from one block to the next
  int32_t block_size = 16;     // S, a multiple of 8
  int32_t num_kv_heads = 0;    // Hkv
  int32_t head_dim = 0;        // D, even, at most kMaxAttentionHeadDim
  KvOrder order = KvOrder::kCpu;
  const float* key_scale = nullptr;  // fp8: [Hkv], positive, or null for all 1
  const float* value_scale = nullptr;
  // A multiple of 16. Above 0 the cache is latent (api/latent.h): it has one KV head and no V, and
  // the value of a token is the first latent_dim elements of its key.
  int32_t latent_dim = 0;

  bool is_latent() const { return latent_dim > 0; }
  int32_t value_dim() const { return is_latent() ? latent_dim : head_dim; }
};

constexpr bool is_fp8(DType dtype) { return dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2; }
constexpr bool has_token_scales(DType dtype) { return dtype == DType::kI8; }
// Returns whether KvOrder::kCpu has the summed index in pairs for this type.
constexpr bool is_in_pairs(DType dtype) {
  return dtype == DType::kBF16 || is_fp8(dtype) || dtype == DType::kI8;
}

// Returns the bytes of K in one block of one layer. V takes as many again, unless the cache is
// latent and has none.
constexpr int64_t kv_half_block_bytes(DType dtype, int64_t num_kv_heads, int64_t head_dim,
                                      int64_t block_size) {
  const int64_t rows = num_kv_heads * block_size;
  const int64_t scales = has_token_scales(dtype) ? rows * size_bytes(DType::kBF16) : 0;
  return rows * head_dim * size_bytes(dtype) + scales;
}

// These return the index of the element (block, head, offset in the block, dim) in `key` and in
// `value`.
constexpr int64_t key_index(const KvCacheView& kv, int64_t block, int64_t head, int64_t offset,
                            int64_t dim) {
  const int64_t base = block * kv.block_stride + head * kv.head_dim * kv.block_size;
  if (kv.order == KvOrder::kTokenMajor) return base + offset * kv.head_dim + dim;
  if (is_in_pairs(kv.dtype)) return base + (dim / 2 * kv.block_size + offset) * 2 + dim % 2;
  return base + dim * kv.block_size + offset;
}
constexpr int64_t value_index(const KvCacheView& kv, int64_t block, int64_t head, int64_t offset,
                              int64_t dim) {
  const int64_t base = block * kv.block_stride + head * kv.head_dim * kv.block_size;
  if (kv.order == KvOrder::kTokenMajor) return base + offset * kv.head_dim + dim;
  if (is_in_pairs(kv.dtype)) return base + (offset / 2 * kv.head_dim + dim) * 2 + offset % 2;
  return base + offset * kv.head_dim + dim;
}

// Returns the index of a token's scale in `key` or `value`, counted in 16-bit elements. The type
// must have token scales (has_token_scales()).
constexpr int64_t token_scale_index(const KvCacheView& kv, int64_t block, int64_t head,
                                    int64_t offset) {
  const int64_t codes = int64_t{kv.num_kv_heads} * kv.head_dim * kv.block_size;
  return (block * kv.block_stride + codes) / 2 + head * kv.block_size + offset;
}

enum class RopeStyle : uint8_t {
  kNone,
  kNeox,         // pairs (i, i + rotary_dim/2): Hugging Face layouts
  kInterleaved,  // pairs (2i, 2i + 1): GPT-J, GGUF llama
  // Each half of rotary_dim is rotated by itself as kNeox does: pairs (i, i + rotary_dim/4), those
  // of the first half first (Gemma 4's vision tower). CPUs only, and not in latent caches.
  kNeoxHalves,
};

// Norms of q and k.
enum class QkNorm : uint8_t {
  kHead,        // RMSNorm of each head, one weight for all: [D]
  kAllHeads,    // RMSNorm over all heads of q, and of k, together: [Hq * D], [Hkv * D]
  kLayerHead,   // LayerNorm without bias of each head with a weight of its own: [Hq, D], [Hkv, D]
  kBiasedHead,  // LayerNorm with a bias of each head, one weight for all: [D]. CPUs only
};

// qkv_to_cache() makes one pass over the output of the fused projection: it norms q and k if there
// are norms, rotates both, writes q back to its place, and writes k and v to their slots.
struct QkvToCacheParams {
  // [T, (Hq + 2 Hkv) * D]: q heads, k heads, v heads. Afterwards q is normed and rotated, and the
  // contents of k are not defined.
  Activations qkv = nullptr;
  int64_t qkv_stride = 0;  // elements between rows
  QkNorm qk_norm = QkNorm::kHead;
  const float* q_norm_weight = nullptr;  // null: no norm
  const float* k_norm_weight = nullptr;  // likewise
  const float* q_norm_bias = nullptr;    // [D], for kBiasedHead
  const float* k_norm_bias = nullptr;
  float norm_eps = 1e-6f;
  bool has_plain_norms = false;    // the weights are all 1, and a GPU does not read them
  bool norm_after_rope = false;    // not with kAllHeads on a GPU
  const float* q_scale = nullptr;  // [T] or null: queries are multiplied by it
  RopeStyle rope_style = RopeStyle::kNeox;
  int32_t rotary_dim = 0;                 // <= D, even; the rest of a head passes unchanged
  const float* cos = nullptr;             // [T, rotary_dim / 2], times the attention scaling
  const float* sin = nullptr;             // [T, rotary_dim / 2], likewise
  const int64_t* slot_mapping = nullptr;  // [T]; on a GPU a negative slot is skipped (padding)
  KvCacheView kv{};
  int64_t num_tokens = 0;
  int32_t num_heads = 0;  // Hq
};
void qkv_to_cache(Stream& stream, const QkvToCacheParams& params);

// rope_table() computes scale * cos(position * inv_freq[i]), and the same of sin, for every token
// of a step. It computes in double precision.
struct RopeTableParams {
  const int32_t* positions = nullptr;  // [T]
  const double* inv_freq = nullptr;    // [rotary_dim / 2]
  double scale = 1.0;                  // attention scaling of YaRN and LongRoPE
  // Dynamic NTK scaling (nn/spec/rope.h) starts at this position; 0: none. GPUs only: callers on a
  // CPU make one call per group of tokens that have the same base.
  int64_t dynamic_max_position = 0;
  double dynamic_theta = 10000.0;
  double dynamic_factor = 1.0;
  float* cos = nullptr;  // [T, rotary_dim / 2]
  float* sin = nullptr;  // [T, rotary_dim / 2]
  int64_t num_tokens = 0;
  int32_t rotary_dim = 0;
};
void rope_table(Stream& stream, const RopeTableParams& params);

// out[t] = 1 + beta * ln(1 + floor((positions[t] + first) / span)), computed in double precision.
struct QueryScalesParams {
  const int32_t* positions = nullptr;  // [T]
  double beta = 0.0;
  int64_t span = 1;
  int64_t first = 0;
  float* out = nullptr;  // [T]
  int64_t num_tokens = 0;
};
void query_scales(Stream& stream, const QueryScalesParams& params);

// kv_block_copy() copies whole blocks with all layers that are in them: block source[i] to block
// destination[i], in order of i.
struct KvBlockCopyParams {
  void* pool = nullptr;                  // block after block
  int64_t block_bytes = 0;               // a multiple of 16 on a GPU
  const int32_t* source = nullptr;       // [n] block ids
  const int32_t* destination = nullptr;  // [n]
  int64_t num_copies = 0;
};
void kv_block_copy(Stream& stream, const KvBlockCopyParams& params);

}  // namespace quire
