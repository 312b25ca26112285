#include "kernels/api/kv_cache.h"

#include <cstring>

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/ops.h"

namespace quire {
namespace {

constexpr int32_t kMaxHeadDim = 1024;
constexpr int64_t kWorthWaking = 1 << 14;

// Copies n elements of `bytes` each from a contiguous row to every `stride`th element.
void scatter(const void* from, void* to, int64_t n, int64_t stride, int64_t bytes) {
  if (bytes == 2) {
    const auto* source = static_cast<const uint16_t*>(from);
    auto* target = static_cast<uint16_t*>(to);
    for (int64_t i = 0; i < n; ++i) target[i * stride] = source[i];
  } else {
    const auto* source = static_cast<const uint32_t*>(from);
    auto* target = static_cast<uint32_t*>(to);
    for (int64_t i = 0; i < n; ++i) target[i * stride] = source[i];
  }
}

void norm_and_rotate(const QkvToCacheParams& p, const cpu::ElementKernels& kernels, int64_t token,
                     float* head, const float* norm_weight) {
  if (norm_weight != nullptr) {
    kernels.rms_norm(head, norm_weight, head, nullptr, p.norm_eps, p.kv.head_dim);
  }
  if (p.rope_style == RopeStyle::kNone || p.rotary_dim == 0) return;
  const int64_t half = p.rotary_dim / 2;
  kernels.rope({.head = head,
                .rotary_dim = p.rotary_dim,
                .interleaved = p.rope_style == RopeStyle::kInterleaved,
                .cos = p.cos + token * half,
                .sin = p.sin + token * half});
}

void store_token(const QkvToCacheParams& p, const cpu::ElementKernels& kernels, int64_t token) {
  const KvCacheView& kv = p.kv;
  const int64_t d = kv.head_dim;
  const int64_t s = kv.block_size;
  const int64_t bytes = size_bytes(kv.dtype);
  const bool pairs = kv.dtype == DType::kBF16;
  const cpu::Storage storage = cpu::storage_of(kv.dtype);
  float* row = p.qkv + token * p.qkv_stride;
  for (int32_t h = 0; h < p.num_heads; ++h) {
    norm_and_rotate(p, kernels, token, row + h * d, p.q_norm_weight);
  }
  float* keys = row + p.num_heads * d;
  const float* values = keys + kv.num_kv_heads * d;
  const int64_t block = p.slot_mapping[token] / s;
  const int64_t offset = p.slot_mapping[token] % s;
  alignas(64) uint8_t converted[kMaxHeadDim * sizeof(float)];
  for (int64_t h = 0; h < kv.num_kv_heads; ++h) {
    norm_and_rotate(p, kernels, token, keys + h * d, p.k_norm_weight);
    kernels.convert(storage, keys + h * d, converted, d);
    auto* key = static_cast<uint8_t*>(kv.key) + key_index(kv, block, h, offset, 0) * bytes;
    auto* value = static_cast<uint8_t*>(kv.value) + value_index(kv, block, h, offset, 0) * bytes;
    if (pairs) {  // a pair of dims is one 32-bit word of a key
      scatter(converted, key, d / 2, s, 4);
      kernels.convert(storage, values + h * d, converted, d);
      scatter(converted, value, d, 2, 2);
    } else {
      scatter(converted, key, d, s, bytes);
      kernels.convert(storage, values + h * d, value, d);
    }
  }
}

}  // namespace

void cpu::qkv_to_cache(Stream& stream, const QkvToCacheParams& params) {
  const HostStream& cpu_stream = cpu::host(stream);
  QUIRE_CHECK(params.kv.head_dim <= kMaxHeadDim, "[qkv_to_cache] head_dim {} > {}",
              params.kv.head_dim, kMaxHeadDim);
  QUIRE_DCHECK(params.rotary_dim % 2 == 0 && params.rotary_dim <= params.kv.head_dim,
               "[qkv_to_cache] rotary_dim {}, head_dim {}", params.rotary_dim, params.kv.head_dim);
  const auto& kernels = cpu::element_kernels(cpu_stream.isa());
  const int64_t row = (int64_t{params.num_heads} + 2 * params.kv.num_kv_heads) * params.kv.head_dim;
  cpu::run_parallel(cpu_stream, params.num_tokens * row, kWorthWaking,
                    [&](int thread, int num_threads) {
                      const WorkRange mine = split_work(params.num_tokens, 1, thread, num_threads);
                      for (int64_t t = mine.begin; t < mine.end; ++t)
                        store_token(params, kernels, t);
                    });
}

void cpu::kv_block_copy(Stream& stream, const KvBlockCopyParams& params) {
  (void)cpu::host(stream);
  const KvCacheView& kv = params.kv;
  const int64_t element = size_bytes(kv.dtype);
  const int64_t bytes = int64_t{kv.num_kv_heads} * kv.block_size * kv.head_dim * element;
  // In order and by one thread: a later copy may read what an earlier one wrote.
  for (int64_t i = 0; i < params.num_copies; ++i) {
    const int64_t from = params.source[i] * kv.block_stride * element;
    const int64_t to = params.destination[i] * kv.block_stride * element;
    if (from == to) continue;
    std::memcpy(static_cast<uint8_t*>(kv.key) + to, static_cast<uint8_t*>(kv.key) + from,
                static_cast<size_t>(bytes));
    std::memcpy(static_cast<uint8_t*>(kv.value) + to, static_cast<uint8_t*>(kv.value) + from,
                static_cast<size_t>(bytes));
  }
}

}  // namespace quire
