// Per-head norm, rotary embedding and the write to the cache in one pass over the fused projection;
// copies of blocks.
#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/cuda/float8.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ops.h"

namespace quire::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kVector = 4;  // neighbouring dims of a lane
constexpr int kVectors = kMaxHeadDim / (32 * kVector);

struct QkvArgs {
  bfloat16* qkv = nullptr;
  int64_t qkv_stride = 0;
  const float* q_norm_weight = nullptr;
  const float* k_norm_weight = nullptr;
  float norm_eps = 0.0f;
  RopeStyle rope_style = RopeStyle::kNone;
  int32_t rotary_dim = 0;
  const float* cos = nullptr;
  const float* sin = nullptr;
  const int64_t* slot_mapping = nullptr;
  KvCacheView kv{};
  int32_t block_shift = 0;
  int64_t num_tokens = 0;
  int32_t num_heads = 0;
};

// Rotates x, the dims [d, d + kVector) of a head; `head` holds the whole head before it.
QUIRE_DEVICE void rotate(const QkvArgs& args, int64_t token, const float* head, int d,
                         float (&x)[kVector]) {
  const int half = args.rotary_dim / 2;
  const float* cos = args.cos + token * half;
  const float* sin = args.sin + token * half;
  const bool is_neox = args.rope_style == RopeStyle::kNeox;
  if (is_neox && half % kVector == 0) {
    if (d >= args.rotary_dim) return;
    const bool is_first = d < half;
    const int pair = is_first ? d : d - half;
    float other[kVector], c[kVector], s[kVector];
    load<kVector>(head + (is_first ? d + half : pair), other);
    load<kVector>(cos + pair, c);
    load<kVector>(sin + pair, s);
#pragma unroll
    for (int i = 0; i < kVector; ++i)
      x[i] = is_first ? x[i] * c[i] - other[i] * s[i] : x[i] * c[i] + other[i] * s[i];
    return;
  }
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    const int dim = d + i;
    if (dim >= args.rotary_dim) return;
    const bool is_first = is_neox ? dim < half : dim % 2 == 0;
    const int pair = !is_neox ? dim / 2 : is_first ? dim : dim - half;
    const float other = head[is_neox ? (is_first ? dim + half : pair) : dim ^ 1];
    x[i] = is_first ? x[i] * cos[pair] - other * sin[pair] : x[i] * cos[pair] + other * sin[pair];
  }
}

// Where a head goes: bf16, or e4m3 codes that stand for code * scale.
struct HeadOut {
  bfloat16* values = nullptr;
  uint8_t* codes = nullptr;
  float scale = 1.0f;

  QUIRE_DEVICE void store_vector(int d, const float (&x)[kVector]) const {
    if (codes == nullptr) return store<kVector>(values + d, x);
    uint32_t packed = 0;
#pragma unroll
    for (int i = 0; i < kVector; ++i)
      packed |= uint32_t{narrow_e4m3(ptx::divide(x[i], scale))} << (8 * i);
    *reinterpret_cast<uint32_t*>(codes + d) = packed;
  }
};

// The place of a key or value head in the cache; `head` counts the KV heads of keys, then those of
// values.
QUIRE_DEVICE HeadOut place_in_cache(const QkvArgs& args, int64_t slot, int32_t head) {
  const int32_t kv_heads = args.kv.num_kv_heads;
  const bool is_value = head >= kv_heads;
  const int32_t kv_head = is_value ? head - kv_heads : head;
  const int64_t offset = slot & ((int64_t{1} << args.block_shift) - 1);
  const int64_t at = (slot >> args.block_shift) * args.kv.block_stride +
                     ((int64_t{kv_head} << args.block_shift) + offset) * args.kv.head_dim;
  void* cache = is_value ? args.kv.value : args.kv.key;
  if (args.kv.dtype != DType::kF8E4M3) return {static_cast<bfloat16*>(cache) + at};
  const float* scales = is_value ? args.kv.value_scale : args.kv.key_scale;
  return {nullptr, static_cast<uint8_t*>(cache) + at, scales == nullptr ? 1.0f : scales[kv_head]};
}

// One warp, one head of one token, with the warp's own kMaxHeadDim floats of scratch.
QUIRE_DEVICE void process_head(const QkvArgs& args, int64_t token, int32_t head, float* scratch) {
  const int lane = ptx::thread_index() % 32;
  const int32_t dims = args.kv.head_dim;
  const bool is_query = head < args.num_heads;
  const bool is_value = head >= args.num_heads + args.kv.num_kv_heads;
  bfloat16* row = args.qkv + token * args.qkv_stride + int64_t{head} * dims;
  HeadOut out{row};
  if (!is_query) {
    const int64_t slot = args.slot_mapping[token];
    if (slot < 0) return;  // padding of a captured graph: the same for the whole warp
    out = place_in_cache(args, slot, head - args.num_heads);
  }
  float x[kVectors][kVector] = {};
  float squares = 0.0f;
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    const int d = (lane + j * 32) * kVector;
    if (d < dims) load<kVector>(row + d, x[j]);
#pragma unroll
    for (int i = 0; i < kVector; ++i) squares += x[j][i] * x[j][i];
  }
  const float* weight = is_query ? args.q_norm_weight : args.k_norm_weight;
  if (!is_value && weight != nullptr) {
    const float scale = 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(dims) + args.norm_eps);
#pragma unroll
    for (int j = 0; j < kVectors; ++j) {
      const int d = (lane + j * 32) * kVector;
      float w[kVector] = {};
      if (d < dims) load<kVector>(weight + d, w);
#pragma unroll
      for (int i = 0; i < kVector; ++i) x[j][i] *= scale * w[i];
    }
  }
  const bool is_rotated = !is_value && args.rope_style != RopeStyle::kNone;
  if (is_rotated) {
    ptx::sync_warp();  // the lanes have read the head before
#pragma unroll
    for (int j = 0; j < kVectors; ++j) store<kVector>(scratch + (lane + j * 32) * kVector, x[j]);
    ptx::sync_warp();
  }
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    const int d = (lane + j * 32) * kVector;
    if (d >= dims) return;
    if (is_rotated) rotate(args, token, scratch, d, x[j]);
    out.store_vector(d, x[j]);
  }
}

QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kWarps * 32, 1) qkv_kernel(const QkvArgs args) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const int warp = ptx::thread_index() / 32;
  auto* scratch = reinterpret_cast<float*>(ptx::shared_memory()) + warp * kMaxHeadDim;
  // 32 bits hold the number of heads of any step, and divide much sooner than 64.
  const auto heads = static_cast<uint32_t>(args.num_heads + 2 * args.kv.num_kv_heads);
  const auto count = static_cast<uint32_t>(args.num_tokens) * heads;
  for (uint32_t i = ptx::block_index() * kWarps + warp; i < count;
       i += ptx::num_blocks() * kWarps) {
    process_head(args, i / heads, static_cast<int32_t>(i % heads), scratch);
  }
}

// A thread copies its 16 bytes of every pair of blocks, pair after pair: a later copy may read what
// an earlier one wrote.
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(256, 1)
    block_copy_kernel(Elements<4, uint32_t>* pool, int64_t block_chunks, const int32_t* source,
                      const int32_t* destination, int64_t num_copies) {
  ptx::wait_for_previous_kernel();
  const int64_t chunk = int64_t{ptx::block_index()} * ptx::block_threads() + ptx::thread_index();
  if (chunk >= block_chunks) return;
  for (int64_t i = 0; i < num_copies; ++i)
    pool[destination[i] * block_chunks + chunk] = pool[source[i] * block_chunks + chunk];
}

}  // namespace

void qkv_to_cache(Stream& stream, const QkvToCacheParams& p) {
  if (p.num_tokens == 0) return;
  QUIRE_CHECK(p.qkv.dtype() == DType::kBF16 && p.kv.order == KvOrder::kTokenMajor &&
                  (p.kv.dtype == DType::kBF16 || p.kv.dtype == DType::kF8E4M3),
              "[qkv_to_cache] a GPU wants bf16 activations and a token-major bf16 or e4m3 cache");
  QUIRE_CHECK(p.kv.head_dim <= kMaxHeadDim && std::has_single_bit(uint32_t(p.kv.block_size)),
              "[qkv_to_cache] head_dim {} (at most {}), blocks of {} tokens (a power of two)",
              p.kv.head_dim, kMaxHeadDim, p.kv.block_size);
  const int64_t work = p.num_tokens * (int64_t{p.num_heads} + 2 * p.kv.num_kv_heads);
  QUIRE_CHECK(p.kv.head_dim % kVector == 0 && p.qkv_stride % kVector == 0 && work < INT32_MAX,
              "[qkv_to_cache] head_dim {}, stride {}: expected multiples of {}; {} heads in all",
              p.kv.head_dim, p.qkv_stride, kVector, work);
  const QkvArgs args{.qkv = static_cast<bfloat16*>(p.qkv.data()),
                     .qkv_stride = p.qkv_stride,
                     .q_norm_weight = p.q_norm_weight,
                     .k_norm_weight = p.k_norm_weight,
                     .norm_eps = p.norm_eps,
                     .rope_style = p.rope_style,
                     .rotary_dim = p.rotary_dim,
                     .cos = p.cos,
                     .sin = p.sin,
                     .slot_mapping = p.slot_mapping,
                     .kv = p.kv,
                     .block_shift = std::countr_zero(static_cast<uint32_t>(p.kv.block_size)),
                     .num_tokens = p.num_tokens,
                     .num_heads = p.num_heads};
  launch<qkv_kernel>(stream,
                     {.num_blocks = blocks_for(gpu(stream), work, kWarps, 16),
                      .num_threads = kWarps * 32,
                      .shared_bytes = kWarps * kMaxHeadDim * sizeof(float)},
                     args);
}

void kv_block_copy(Stream& stream, const KvBlockCopyParams& p) {
  if (p.num_copies == 0) return;
  using Chunk = Elements<4, uint32_t>;
  QUIRE_CHECK(p.block_bytes % 16 == 0,
              "[kv_block_copy] blocks of {} bytes: expected a multiple of 16", p.block_bytes);
  const int64_t chunks = p.block_bytes / 16;
  launch<block_copy_kernel>(stream, {.num_blocks = (chunks + 255) / 256, .num_threads = 256},
                            static_cast<Chunk*>(p.pool), chunks, p.source, p.destination,
                            p.num_copies);
}

}  // namespace quire::cuda
