// Normalizes queries and keys, applies the rotary embedding and writes the cache, in one pass over
// the fused projection. Also copies blocks.
#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/cuda/float8.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ops.h"

namespace quire::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kNormThreads = 256;

// How the lanes of a warp divide a head: each has kVectors vectors of kVector neighbouring dims.
template <int kVectorOf, int kVectorsOf>
struct HeadShape {
  static constexpr int kVector = kVectorOf;
  static constexpr int kVectors = kVectorsOf;
  static constexpr int kMaxDims = 32 * kVector * kVectors;
  using Values = float[kVectors][kVector];
  // Returns the first dim of a lane's vector `piece`.
  static QUIRE_DEVICE int dim(int piece) {
    return (ptx::thread_index() % 32 + piece * 32) * kVector;
  }
};

struct QkvArgs {
  bfloat16* qkv = nullptr;
  int64_t qkv_stride = 0;
  const float* q_norm_weight = nullptr;
  const float* k_norm_weight = nullptr;
  QkNorm norm = QkNorm::kHead;
  bool has_plain_norms = false;
  bool norm_after_rope = false;
  float norm_eps = 0.0f;
  const float* q_scale = nullptr;
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

// Returns whether each vector is within one half of the rotary dims, so that its cosines and sines
// are consecutive too.
QUIRE_DEVICE bool rotates_vectors(const QkvArgs& args, int vector) {
  return args.rope_style == RopeStyle::kNeox && args.rotary_dim / 2 % vector == 0;
}

// The cosines and sines of a lane's dims, if rotates_vectors().
template <typename Shape>
struct Angles {
  typename Shape::Values cos;
  typename Shape::Values sin;

  // Calls f with the number of each rotated vector and the index of its angles.
  template <typename F>
  static QUIRE_DEVICE void for_each(const QkvArgs& args, int64_t token, F&& f) {
    if (!rotates_vectors(args, Shape::kVector)) return;
    const int half = args.rotary_dim / 2;
#pragma unroll
    for (int j = 0; j < Shape::kVectors; ++j) {
      const int d = Shape::dim(j);
      if (d < args.rotary_dim) f(j, token * half + (d < half ? d : d - half));
    }
  }
};

// Rotates the lane's vector j, which begins at dim d. `head` has the whole head before the
// rotation.
template <typename Shape>
QUIRE_DEVICE void rotate(const QkvArgs& args, int64_t token, const float* head,
                         const Angles<Shape>& angles, int j, typename Shape::Values& values) {
  constexpr int kVector = Shape::kVector;
  const int half = args.rotary_dim / 2;
  const int d = Shape::dim(j);
  float(&x)[kVector] = values[j];
  if (rotates_vectors(args, kVector)) {
    if (d >= args.rotary_dim) return;
    const bool is_first = d < half;
    float other[kVector];
    load<kVector>(head + (is_first ? d + half : d - half), other);
    const float(&c)[kVector] = angles.cos[j];
    const float(&s)[kVector] = angles.sin[j];
#pragma unroll
    for (int i = 0; i < kVector; ++i)
      x[i] = is_first ? x[i] * c[i] - other[i] * s[i] : x[i] * c[i] + other[i] * s[i];
    return;
  }
  const bool is_neox = args.rope_style == RopeStyle::kNeox;
  const float* cos = args.cos + token * half;
  const float* sin = args.sin + token * half;
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

// Where a head is written: as bf16, or as e4m3 codes whose values are code * scale.
struct HeadOut {
  bfloat16* values = nullptr;
  uint8_t* codes = nullptr;
  float scale = 1.0f;

  template <int kVector>
  QUIRE_DEVICE void store_vector(int d, const float (&x)[kVector]) const {
    if (codes == nullptr) return store<kVector>(values + d, x);
    Elements<kVector, uint8_t> packed;
#pragma unroll
    for (int i = 0; i < kVector; ++i) packed.at[i] = narrow_e4m3(ptx::divide(x[i], scale));
    *reinterpret_cast<Elements<kVector, uint8_t>*>(codes + d) = packed;
  }
};

// Returns the place of a head in the cache. `head` counts the KV heads of keys, then those of
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

// Normalizes a head. `weight`: [D], or null for ones.
template <typename Shape>
QUIRE_DEVICE void norm_head(const QkvArgs& args, const float* weight, typename Shape::Values& x) {
  const int32_t dims = args.kv.head_dim;
  const auto count = static_cast<float>(dims);
  float mean = 0.0f;
  if (args.norm == QkNorm::kLayerHead) {
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < Shape::kVectors; ++j) {
#pragma unroll
      for (int i = 0; i < Shape::kVector; ++i) sum += x[j][i];  // x is 0 past the dims
    }
    mean = warp_sum(sum) / count;
  }
  float squares = 0.0f;
#pragma unroll
  for (int j = 0; j < Shape::kVectors; ++j) {
    if (Shape::dim(j) >= dims) continue;
#pragma unroll
    for (int i = 0; i < Shape::kVector; ++i) {
      x[j][i] -= mean;
      squares += x[j][i] * x[j][i];
    }
  }
  const float scale = 1.0f / sqrtf(warp_sum(squares) / count + args.norm_eps);
#pragma unroll
  for (int j = 0; j < Shape::kVectors; ++j) {
    const int d = Shape::dim(j);
    float w[Shape::kVector];
#pragma unroll
    for (float& one : w) one = 1.0f;
    if (weight != nullptr && d < dims) load<Shape::kVector>(weight + d, w);
#pragma unroll
    for (int i = 0; i < Shape::kVector; ++i) x[j][i] *= scale * w[i];
  }
}

// Rotates a head; `scratch` belongs to the warp.
template <typename Shape>
QUIRE_DEVICE void rotate_head(const QkvArgs& args, int64_t token, const Angles<Shape>& angles,
                              float* scratch, typename Shape::Values& x) {
  ptx::sync_warp();  // all lanes have read the head
#pragma unroll
  for (int j = 0; j < Shape::kVectors; ++j) store<Shape::kVector>(scratch + Shape::dim(j), x[j]);
  ptx::sync_warp();
#pragma unroll
  for (int j = 0; j < Shape::kVectors; ++j) {
    if (Shape::dim(j) < args.kv.head_dim) rotate<Shape>(args, token, scratch, angles, j, x);
  }
}

// Returns the weight of a head's norm, or null for ones. `head` counts heads of the same kind.
QUIRE_DEVICE const float* head_weight(const QkvArgs& args, const float* weights, int32_t head) {
  if (args.has_plain_norms) return nullptr;
  return weights + (args.norm == QkNorm::kLayerHead ? int64_t{head} * args.kv.head_dim : 0);
}

// Processes one head of one token per warp, with Shape::kMaxDims floats of scratch for each warp.
// All loads are issued at once, since each takes long.
template <typename Shape>
QUIRE_DEVICE void process_head(const QkvArgs& args, int64_t token, int32_t head, float* scratch) {
  const int32_t dims = args.kv.head_dim;
  const bool is_query = head < args.num_heads;
  const bool is_value = head >= args.num_heads + args.kv.num_kv_heads;
  bfloat16* row = args.qkv + token * args.qkv_stride + int64_t{head} * dims;
  const int64_t slot = is_query ? 0 : args.slot_mapping[token];
  typename Shape::Values x = {};
#pragma unroll
  for (int j = 0; j < Shape::kVectors; ++j) {
    if (Shape::dim(j) < dims) load<Shape::kVector>(row + Shape::dim(j), x[j]);
  }
  Angles<Shape> angles = {};
  if (!is_value) {
    Angles<Shape>::for_each(args, token, [&](int j, int64_t at) {
      load<Shape::kVector>(args.cos + at, angles.cos[j]);
      load<Shape::kVector>(args.sin + at, angles.sin[j]);
    });
  }
  if (slot < 0) return;  // padding of a captured graph: the same for the whole warp
  const HeadOut out = is_query ? HeadOut{row} : place_in_cache(args, slot, head - args.num_heads);
  const float* weights = is_query ? args.q_norm_weight : args.k_norm_weight;
  const bool is_normed = !is_value && weights != nullptr && args.norm != QkNorm::kAllHeads;
  const int32_t head_of_kind = is_query ? head : head - args.num_heads;
  if (is_normed && !args.norm_after_rope)
    norm_head<Shape>(args, head_weight(args, weights, head_of_kind), x);
  if (!is_value && args.rope_style != RopeStyle::kNone)
    rotate_head<Shape>(args, token, angles, scratch, x);
  if (is_normed && args.norm_after_rope)
    norm_head<Shape>(args, head_weight(args, weights, head_of_kind), x);
  const float scale = is_query && args.q_scale != nullptr ? args.q_scale[token] : 1.0f;
#pragma unroll
  for (int j = 0; j < Shape::kVectors; ++j) {
    if (Shape::dim(j) >= dims) return;
#pragma unroll
    for (float& value : x[j]) value = ptx::multiply(value, scale);
    out.store_vector(Shape::dim(j), x[j]);
  }
}

// Prefetches into the L2 cache what the projection does not write, while the projection still runs.
template <typename Shape>
QUIRE_DEVICE void prefetch_tables(const QkvArgs& args, int64_t token) {
  if (args.kv.num_kv_heads > 0) ptx::prefetch(args.slot_mapping + token);
  Angles<Shape>::for_each(args, token, [&](int /*vector*/, int64_t at) {
    ptx::prefetch(args.cos + at);
    ptx::prefetch(args.sin + at);
  });
}

template <typename Shape>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kWarps * 32, 1) qkv_kernel(const QkvArgs args) {
  const int warp = ptx::thread_index() / 32;
  auto* scratch = reinterpret_cast<float*>(ptx::shared_memory()) + warp * Shape::kMaxDims;
  // The number of heads of any step fits 32 bits, and 32-bit division is much faster than 64-bit.
  const auto heads = static_cast<uint32_t>(args.num_heads + 2 * args.kv.num_kv_heads);
  const auto count = static_cast<uint32_t>(args.num_tokens) * heads;
  const uint32_t first = ptx::block_index() * kWarps + warp;
  if (first < count) prefetch_tables<Shape>(args, first / heads);
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  for (uint32_t i = first; i < count; i += ptx::num_blocks() * kWarps)
    process_head<Shape>(args, i / heads, static_cast<int32_t>(i % heads), scratch);
}

// RMSNorm over all queries of a token together, in one block, and over all its keys in the next
// block.
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kNormThreads, 1) norm_all_heads_kernel(const QkvArgs args) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  auto* scratch = reinterpret_cast<float*>(ptx::shared_memory());
  const bool is_key = ptx::block_index() % 2 != 0;
  const int32_t size = (is_key ? args.kv.num_kv_heads : args.num_heads) * args.kv.head_dim;
  const float* weight = is_key ? args.k_norm_weight : args.q_norm_weight;
  bfloat16* row = args.qkv + ptx::block_index() / 2 * args.qkv_stride +
                  (is_key ? int64_t{args.num_heads} * args.kv.head_dim : 0);
  float squares = 0.0f;
  for (int32_t i = ptx::thread_index(); i < size; i += kNormThreads) {
    const float x = widen(row[i]);
    squares = ptx::multiply_add(x, x, squares);
  }
  const float sum = block_sum(squares, scratch);
  const float scale = 1.0f / sqrtf(sum / static_cast<float>(size) + args.norm_eps);
  for (int32_t i = ptx::thread_index(); i < size; i += kNormThreads) {
    const float w = args.has_plain_norms ? 1.0f : weight[i];
    row[i] = narrow<bfloat16>(widen(row[i]) * scale * w);
  }
}

template <typename Shape>
void launch_for(Stream& stream, const QkvArgs& args, int64_t work) {
  launch<qkv_kernel<Shape>>(stream,
                            {.num_blocks = blocks_for(gpu(stream), work, kWarps, 16),
                             .num_threads = kWarps * 32,
                             .shared_bytes = kWarps * Shape::kMaxDims * sizeof(float)},
                            args);
}

// Each thread copies its 16 bytes of every pair of blocks, one pair after another, since a later
// copy may read what an earlier one wrote.
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
  QUIRE_CHECK(p.kv.order == KvOrder::kTokenMajor,
              "[qkv_to_cache] a GPU wants a token-major cache, got one in the CPU's order");
  QUIRE_CHECK(
      p.qkv.dtype() == DType::kBF16 && (p.kv.dtype == DType::kBF16 || p.kv.dtype == DType::kF8E4M3),
      "[qkv_to_cache] a GPU wants bf16 activations and a bf16 or e4m3 cache, got {} "
      "activations and a {} cache",
      to_string(p.qkv.dtype()), to_string(p.kv.dtype));
  QUIRE_CHECK(p.kv.head_dim <= kMaxHeadDim && std::has_single_bit(uint32_t(p.kv.block_size)),
              "[qkv_to_cache] head_dim {} (at most {}), blocks of {} tokens (a power of two)",
              p.kv.head_dim, kMaxHeadDim, p.kv.block_size);
  const int64_t work = p.num_tokens * (int64_t{p.num_heads} + 2 * p.kv.num_kv_heads);
  QUIRE_CHECK(p.kv.head_dim % 2 == 0 && p.qkv_stride % 2 == 0 && work < INT32_MAX,
              "[qkv_to_cache] head_dim {}, stride {}: expected even ones; {} heads in all",
              p.kv.head_dim, p.qkv_stride, work);
  const bool norms = p.q_norm_weight != nullptr;
  const bool norms_all = norms && p.qk_norm == QkNorm::kAllHeads;
  QUIRE_CHECK((p.kv.num_kv_heads == 0 || norms == (p.k_norm_weight != nullptr)) &&
                  !(norms_all && p.norm_after_rope),
              "[qkv_to_cache] expected norms of queries and keys, of all heads before rotation");
  const QkvArgs args{.qkv = static_cast<bfloat16*>(p.qkv.data()),
                     .qkv_stride = p.qkv_stride,
                     .q_norm_weight = p.q_norm_weight,
                     .k_norm_weight = p.k_norm_weight,
                     .norm = p.qk_norm,
                     .has_plain_norms = p.has_plain_norms,
                     .norm_after_rope = p.norm_after_rope,
                     .norm_eps = p.norm_eps,
                     .q_scale = p.q_scale,
                     .rope_style = p.rope_style,
                     .rotary_dim = p.rotary_dim,
                     .cos = p.cos,
                     .sin = p.sin,
                     .slot_mapping = p.slot_mapping,
                     .kv = p.kv,
                     .block_shift = std::countr_zero(static_cast<uint32_t>(p.kv.block_size)),
                     .num_tokens = p.num_tokens,
                     .num_heads = p.num_heads};
  if (norms_all) {
    launch<norm_all_heads_kernel>(stream,
                                  {.num_blocks = 2 * p.num_tokens,
                                   .num_threads = kNormThreads,
                                   .shared_bytes = 32 * sizeof(float)},
                                  args);
  }
  if (p.kv.head_dim % 4 != 0 || p.qkv_stride % 4 != 0)
    return launch_for<HeadShape<2, kMaxHeadDim / 64>>(stream, args, work);
  if (p.kv.head_dim > 256) return launch_for<HeadShape<4, 4>>(stream, args, work);
  launch_for<HeadShape<4, 2>>(stream, args, work);
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
