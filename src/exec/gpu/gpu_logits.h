// Logits of chosen tokens of the last forward pass, for the sampler on the host.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "device/device.h"
#include "nn/decoder/decoder.h"
#include "tensor/arena.h"

namespace quire {

// Borrows what it is made of. One thread at a time.
class GpuLogits {
 public:
  struct Shape {
    int64_t max_rows = 0;    // per call
    int64_t vocab_size = 0;  // V
    int64_t values_bytes() const { return max_rows * vocab_size * 4; }
    int64_t rows_bytes() const { return Arena::padded(max_rows * 4); }
  };
  // `on_device` [max_rows, V]: overwritten. Each of `rows` and `pinned_rows` has rows_bytes(), and
  // `pinned_values` values_bytes().
  struct Memory {
    float* on_device;
    Arena& rows;
    Arena& pinned_rows;
    Arena& pinned_values;
  };
  GpuLogits(const Shape& shape, Device& device, Decoder& decoder, const Memory& memory);

  // Waits until on_host() has those of `tokens`, in this order.
  Status compute(std::span<const int32_t> tokens);
  std::span<float> on_host() const { return {on_host_, static_cast<size_t>(size_)}; }

 private:
  Device& device_;
  Decoder& decoder_;
  int64_t vocab_size_;
  int64_t size_;
  float* on_device_;
  int32_t* rows_on_device_;
  int32_t* pinned_rows_;
  float* on_host_;
};

}  // namespace quire
