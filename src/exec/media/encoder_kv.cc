#include "exec/media/encoder_kv.h"

namespace quire {

KvCacheView EncoderKv::place(Arena& arena) const {
  return {.key = arena.allocate<float>(half_floats()),
          .value = arena.allocate<float>(half_floats()),
          .dtype = DType::kF32,
          .block_stride = attention_.kv_rows() * kBlockSize,
          .block_size = kBlockSize,
          .num_kv_heads = attention_.num_kv_heads,
          .head_dim = attention_.head_dim};
}

}  // namespace quire
