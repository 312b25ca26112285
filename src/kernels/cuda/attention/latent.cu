// Latent attention without the walk over the cache: a block normalizes and writes the latent of a
// token, and rotates its keys and queries. Products of heads are linear() calls, head by head.
#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/cuda/float8.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ops.h"

namespace quire::cuda {
namespace {

constexpr int kThreads = 256;

struct LatentArgs {
  const bfloat16* latent;
  int64_t latent_stride;
  const float* norm_weight;
  float norm_eps;
  const bfloat16* query;
  int64_t query_stride;
  int32_t nope_dim;
  bfloat16* absorbed;
  RopeStyle rope_style;
  const float* cos;
  const float* sin;
  const int64_t* slot_mapping;
  KvCacheView kv;
  int32_t block_shift;
  int32_t num_heads;
};

struct RotatedPair {
  int first;  // dims of the pair
  int second;
  float x;
  float y;
};

// Returns pair i of the P dims of a token, rotated.
QUIRE_DEVICE RotatedPair rotated(const LatentArgs& args, int64_t token, const bfloat16* from,
                                 int i) {
  const int half = (args.kv.head_dim - args.kv.latent_dim) / 2;
  const bool is_neox = args.rope_style == RopeStyle::kNeox;
  RotatedPair pair{.first = is_neox ? i : 2 * i, .second = is_neox ? i + half : 2 * i + 1};
  pair.x = widen(from[pair.first]);
  pair.y = widen(from[pair.second]);
  if (args.rope_style == RopeStyle::kNone) return pair;
  const float c = args.cos[token * half + i];
  const float s = args.sin[token * half + i];
  const float x = pair.x * c - pair.y * s;
  pair.y = pair.y * c + pair.x * s;
  pair.x = x;
  return pair;
}

// Where a slot's row is written: as bf16, or as e4m3 codes whose values are code * scale.
struct LatentRow {
  bfloat16* values = nullptr;
  uint8_t* codes = nullptr;
  float scale = 1.0f;

  QUIRE_DEVICE void store(int dim, float x) const {
    if (codes == nullptr) {
      values[dim] = narrow<bfloat16>(x);
    } else {
      codes[dim] = static_cast<uint8_t>(narrow_e4m3(ptx::divide(x, scale)));
    }
  }
};

QUIRE_DEVICE LatentRow row_of(const LatentArgs& args, int64_t slot) {
  const int64_t offset = slot & ((int64_t{1} << args.block_shift) - 1);
  const int64_t at = (slot >> args.block_shift) * args.kv.block_stride + offset * args.kv.head_dim;
  if (args.kv.dtype != DType::kF8E4M3) return {static_cast<bfloat16*>(args.kv.key) + at};
  return {nullptr, static_cast<uint8_t*>(args.kv.key) + at,
          args.kv.key_scale == nullptr ? 1.0f : args.kv.key_scale[0]};
}

QUIRE_DEVICE void write_latent(const LatentArgs& args, int64_t token, float* scratch) {
  const int rank = args.kv.latent_dim;
  const int half = (args.kv.head_dim - rank) / 2;
  const bfloat16* latent = args.latent + token * args.latent_stride;
  const int64_t slot = args.slot_mapping[token];
  if (slot < 0) return;  // padding of a captured graph: the same for the whole block
  float squares = 0.0f;
  for (int i = ptx::thread_index(); i < rank; i += kThreads) {
    const float x = widen(latent[i]);
    squares = ptx::multiply_add(x, x, squares);
  }
  const float sum = block_sum(squares, scratch);
  const float scale = 1.0f / sqrtf(sum / static_cast<float>(rank) + args.norm_eps);
  const LatentRow row = row_of(args, slot);
  for (int i = ptx::thread_index(); i < rank; i += kThreads)
    row.store(i, widen(latent[i]) * scale * args.norm_weight[i]);
  for (int i = ptx::thread_index(); i < half; i += kThreads) {
    const RotatedPair pair = rotated(args, token, latent + rank, i);
    row.store(rank + pair.first, pair.x);
    row.store(rank + pair.second, pair.y);
  }
}

QUIRE_DEVICE void rotate_queries(const LatentArgs& args, int64_t token) {
  const int rope_dim = args.kv.head_dim - args.kv.latent_dim;
  const int half = rope_dim / 2;
  for (int i = ptx::thread_index(); i < args.num_heads * half; i += kThreads) {
    const int64_t head = i / half;
    const bfloat16* from =
        args.query + token * args.query_stride + head * (args.nope_dim + rope_dim) + args.nope_dim;
    const RotatedPair pair = rotated(args, token, from, i % half);
    bfloat16* to =
        args.absorbed + (token * args.num_heads + head) * args.kv.head_dim + args.kv.latent_dim;
    to[pair.first] = narrow<bfloat16>(pair.x);
    to[pair.second] = narrow<bfloat16>(pair.y);
  }
}

QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 1) latent_kernel(const LatentArgs args) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const int64_t token = ptx::block_index();
  rotate_queries(args, token);
  write_latent(args, token, reinterpret_cast<float*>(ptx::shared_memory()));
}

}  // namespace

void latent_to_cache(Stream& stream, const LatentToCacheParams& p) {
  if (p.num_tokens == 0) return;
  QUIRE_CHECK(p.kv.order == KvOrder::kTokenMajor,
              "[latent_to_cache] a GPU wants a token-major cache, got one in the CPU's order");
  QUIRE_CHECK(p.latent.dtype() == DType::kBF16 && p.query.dtype() == DType::kBF16 &&
                  p.absorbed.dtype() == DType::kBF16 &&
                  (p.kv.dtype == DType::kBF16 || p.kv.dtype == DType::kF8E4M3),
              "[latent_to_cache] a GPU wants bf16 activations and a bf16 or e4m3 cache, got {}, {} "
              "and {} activations and a {} cache",
              to_string(p.latent.dtype()), to_string(p.query.dtype()),
              to_string(p.absorbed.dtype()), to_string(p.kv.dtype));
  QUIRE_CHECK(std::has_single_bit(static_cast<uint32_t>(p.kv.block_size)),
              "[latent_to_cache] blocks of {} tokens: expected a power of two", p.kv.block_size);
  launch<latent_kernel>(
      stream,
      {.num_blocks = p.num_tokens, .num_threads = kThreads, .shared_bytes = 32 * sizeof(float)},
      LatentArgs{.latent = static_cast<const bfloat16*>(p.latent.data()),
                 .latent_stride = p.latent_stride,
                 .norm_weight = p.norm_weight,
                 .norm_eps = p.norm_eps,
                 .query = static_cast<const bfloat16*>(p.query.data()),
                 .query_stride = p.query_stride,
                 .nope_dim = p.nope_dim,
                 .absorbed = static_cast<bfloat16*>(p.absorbed.data()),
                 .rope_style = p.rope_style,
                 .cos = p.cos,
                 .sin = p.sin,
                 .slot_mapping = p.slot_mapping,
                 .kv = p.kv,
                 .block_shift = std::countr_zero(static_cast<uint32_t>(p.kv.block_size)),
                 .num_heads = p.num_heads});
}

void head_linear(Stream& stream, const HeadLinearParams& p) {
  for (size_t head = 0; head < p.weights.size(); ++head) {
    const auto at = static_cast<int64_t>(head);
    cuda::linear(stream, {.x = p.x.from(at * p.x_head_stride),
                          .x_stride = p.x_stride,
                          .weight = p.weights[head],
                          .y = p.y.from(at * p.y_head_stride),
                          .y_stride = p.y_stride,
                          .num_rows = p.num_tokens,
                          .workspace = p.workspace});
  }
}

int64_t head_linear_workspace_bytes(const Stream& stream, int64_t max_tokens,
                                    const WeightSpec& spec) {
  return cuda::linear_workspace_bytes(stream, max_tokens, spec);
}

}  // namespace quire::cuda
