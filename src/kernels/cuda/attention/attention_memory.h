// How much shared memory attention needs, for code that plans a model before it runs.
#pragma once

#include <cstdint>

namespace quire::cuda {

// The most that a block may request on GPUs of compute capability 8.6 and 8.9, the least of all
// GPUs that the kernels support (CUDA C++ Programming Guide, technical specifications per compute
// capability).
inline constexpr int64_t kLeastSharedBytes = 99 << 10;

// Returns whether the decode and prefill kernels support the heads: their rows in the cache must be
// whole pieces of 16 bytes, and keys and values separate.
constexpr bool fits_tensor_cores(int32_t head_dim, bool is_fp8) {
  return head_dim <= 256 && head_dim % (is_fp8 ? 16 : 8) == 0;
}

// Returns the bytes that a block of the attention kernels must be able to request. Above 128 dims a
// GPU without room for two stages of keys and values uses one. An e4m3 cache takes more there,
// since codes and their values are both stored. The plain kernel needs no more than every GPU has.
constexpr int64_t least_attention_shared_bytes(int32_t head_dim, bool is_fp8) {
  if (!fits_tensor_cores(head_dim, is_fp8)) return 0;
  const int64_t dims = head_dim <= 64 ? 64 : head_dim <= 128 ? 128 : 256;
  const int64_t query_bytes = (dims <= 128 ? 128 : 64) * dims * 2;
  const int64_t tile_bytes = 64 * dims * 2;
  const int64_t num_tiles = dims <= 128 ? 4 : is_fp8 ? 3 : 2;
  return query_bytes + num_tiles * tile_bytes;
}

// The dims that the wide kernel (attention_wide.cu) is compiled for; smaller heads are padded with
// zeros.
struct WideDims {
  int32_t key = 0;  // 0: it does not support such heads
  int32_t value = 0;
};
// The properties of a cache's heads that attention depends on.
struct HeadKind {
  int32_t head_dim = 0;
  int32_t latent_dim = 0;  // above 0: a value is the first latent_dim dims of its key
  bool is_fp8 = false;
};
constexpr WideDims wide_dims(const HeadKind& kind) {
  const int32_t unit = kind.is_fp8 ? 16 : 8;  // a piece of 16 bytes
  if (kind.head_dim % unit != 0 || kind.latent_dim % unit != 0) return {};
  if (kind.latent_dim == 0) {
    const bool is_wide = kind.head_dim > 256 && kind.head_dim <= 512;
    return is_wide ? WideDims{512, 512} : WideDims{};
  }
  // Rows must be whole groups of eight pieces, since swizzling permutes pieces within a group.
  if (kind.head_dim <= 320 && kind.latent_dim <= 256)
    return kind.is_fp8 ? WideDims{384, 256} : WideDims{320, 256};
  if (kind.head_dim > 576 || kind.latent_dim > 512) return {};
  return kind.is_fp8 ? WideDims{640, 512} : WideDims{576, 512};
}
// Returns the shared memory of a block of the wide kernel for prompts, with `num_tiles` tiles of 64
// positions, each of keys or of values with rows of `row_bytes`. The rest is the weights of a tile
// for 32 query rows, the maxima of warps, and the block's work. Decode takes less.
constexpr int64_t wide_attention_bytes(int32_t row_bytes, int num_tiles) {
  return int64_t{num_tiles} * 64 * row_bytes + 32 * 64 * 2 + 32 * 2 * 4 + 128;
}

// Which kernels compute attention. It depends only on the heads and the GPU, so that all rows of a
// layer use the same kernels.
enum class AttentionWay : uint8_t {
  kTensorCores,  // decode and prefill kernels
  kWide,         // latents, and heads of more than 256 dims, also by tensor cores
  kPlain,        // all other heads (attention_plain.cu)
};
constexpr AttentionWay attention_way(const HeadKind& kind, int64_t shared_bytes_per_block) {
  if (kind.latent_dim == 0 && fits_tensor_cores(kind.head_dim, kind.is_fp8))
    return AttentionWay::kTensorCores;
  const WideDims dims = wide_dims(kind);
  const int32_t row_bytes = dims.key * (kind.is_fp8 ? 1 : 2);
  const bool fits = dims.key > 0 && wide_attention_bytes(row_bytes, 1) <= shared_bytes_per_block;
  return fits ? AttentionWay::kWide : AttentionWay::kPlain;
}

}  // namespace quire::cuda
