// EncoderKv is the place of an encoder's keys and values. A layer's keys and values are read
// before those of the next layer are written, so all layers use one place.
#pragma once

#include <cstdint>

#include "kernels/api/kv_cache.h"
#include "nn/decoder_spec.h"
#include "tensor/arena.h"

namespace quire {

class EncoderKv {
 public:
  static constexpr int32_t kBlockSize = 16;  // rows
  static constexpr int64_t blocks_of(int64_t num_rows) {
    return (num_rows + kBlockSize - 1) / kBlockSize;
  }

  // `attention` is that of any layer: all have the same heads.
  EncoderKv(const AttentionSpec& attention, int64_t num_blocks)
      : attention_(attention), num_blocks_(num_blocks) {}

  int64_t bytes() const { return 2 * Arena::padded(half_floats() * int64_t{sizeof(float)}); }
  // Takes bytes() of the arena.
  KvCacheView place(Arena& arena) const;

 private:
  // The floats of the keys; the values take as many.
  int64_t half_floats() const { return num_blocks_ * kBlockSize * attention_.kv_rows(); }

  const AttentionSpec& attention_;
  int64_t num_blocks_;
};

}  // namespace quire
