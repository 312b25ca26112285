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
constexpr int kDimsPerLane = kMaxHeadDim / 32;

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

// Value of dim `d` of a head after rotation; `head` holds the head before it.
QUIRE_DEVICE float rotated(const QkvArgs& args, int64_t token, const float* head, int d) {
  if (args.rope_style == RopeStyle::kNone || d >= args.rotary_dim) return head[d];
  const int half = args.rotary_dim / 2;
  const bool is_neox = args.rope_style == RopeStyle::kNeox;
  const int pair = is_neox ? d % half : d / 2;
  const bool is_first = is_neox ? d < half : d % 2 == 0;
  const float a = head[is_neox ? pair : 2 * pair];
  const float b = head[is_neox ? pair + half : 2 * pair + 1];
  const float c = args.cos[token * half + pair];
  const float s = args.sin[token * half + pair];
  return is_first ? a * c - b * s : b * c + a * s;
}

// Where a head goes: bf16, or e4m3 codes that stand for code * scale.
struct HeadOut {
  bfloat16* values = nullptr;
  uint8_t* codes = nullptr;
  float scale = 1.0f;

  QUIRE_DEVICE void store(int d, float x) const {
    if (codes != nullptr) {
      codes[d] = narrow_e4m3(ptx::divide(x, scale));
    } else {
      values[d] = narrow<bfloat16>(x);
    }
  }
};

// One warp, one head of one token, with the warp's own kMaxHeadDim floats of scratch.
QUIRE_DEVICE void process_head(const QkvArgs& args, int64_t token, int32_t head, float* scratch) {
  const int lane = ptx::thread_index() % 32;
  const int32_t dims = args.kv.head_dim;
  const int32_t kv_heads = args.kv.num_kv_heads;
  const bool is_query = head < args.num_heads;
  const bool is_value = head >= args.num_heads + kv_heads;
  bfloat16* row = args.qkv + token * args.qkv_stride + int64_t{head} * dims;
  float x[kDimsPerLane] = {};
  float squares = 0.0f;
#pragma unroll
  for (int j = 0; j < kDimsPerLane; ++j) {
    const int d = lane + j * 32;
    if (d < dims) x[j] = widen(row[d]);
    squares += x[j] * x[j];
  }
  const float* weight = is_query ? args.q_norm_weight : args.k_norm_weight;
  if (!is_value && weight != nullptr) {
    const float scale = 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(dims) + args.norm_eps);
#pragma unroll
    for (int j = 0; j < kDimsPerLane; ++j) {
      const int d = lane + j * 32;
      if (d < dims) x[j] *= scale * weight[d];
    }
  }
  HeadOut out{row};
  if (!is_query) {
    const int64_t slot = args.slot_mapping[token];
    if (slot < 0) return;  // padding of a captured graph: the same for the whole warp
    const int64_t offset = slot & ((int64_t{1} << args.block_shift) - 1);
    const int32_t kv_head = head - args.num_heads - (is_value ? kv_heads : 0);
    const int64_t at = (slot >> args.block_shift) * args.kv.block_stride +
                       ((int64_t{kv_head} << args.block_shift) + offset) * dims;
    void* cache = is_value ? args.kv.value : args.kv.key;
    const float* scales = is_value ? args.kv.value_scale : args.kv.key_scale;
    out = args.kv.dtype == DType::kF8E4M3 ? HeadOut{nullptr, static_cast<uint8_t*>(cache) + at,
                                                    scales == nullptr ? 1.0f : scales[kv_head]}
                                          : HeadOut{static_cast<bfloat16*>(cache) + at};
  }
  if (!is_value) {
    ptx::sync_warp();  // the lanes have read the head before
#pragma unroll
    for (int j = 0; j < kDimsPerLane; ++j) scratch[lane + j * 32] = x[j];
    ptx::sync_warp();
  }
#pragma unroll
  for (int j = 0; j < kDimsPerLane; ++j) {
    const int d = lane + j * 32;
    if (d < dims) out.store(d, is_value ? x[j] : rotated(args, token, scratch, d));
  }
}

QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kWarps * 32, 1) qkv_kernel(const QkvArgs args) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const int warp = ptx::thread_index() / 32;
  auto* scratch = reinterpret_cast<float*>(ptx::shared_memory()) + warp * kMaxHeadDim;
  const int32_t heads = args.num_heads + 2 * args.kv.num_kv_heads;
  for (int64_t i = int64_t{ptx::block_index()} * kWarps + warp; i < args.num_tokens * heads;
       i += int64_t{ptx::num_blocks()} * kWarps) {
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
  const int64_t work = p.num_tokens * (int64_t{p.num_heads} + 2 * p.kv.num_kv_heads);
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
