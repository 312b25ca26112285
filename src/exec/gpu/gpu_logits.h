// GpuLogits computes logits of chosen tokens of the last forward pass, for the sampler on the host.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "nn/decoder/decoder.h"
#include "tensor/arena.h"

namespace quire {

// Borrows its arguments. One thread at a time may use it.
class GpuLogits {
 public:
  struct Shape {
    int64_t max_rows = 0;    // per call
    int64_t vocab_size = 0;  // V
    std::span<const TokenId> token_map =
        {};  // the tokens that a reduced head computes; empty: the whole vocabulary
    int64_t num_logits() const { return token_map.empty() ? vocab_size : std::ssize(token_map); }
    int64_t values_bytes() const { return max_rows * num_logits() * 4; }
    int64_t rows_bytes() const { return Arena::padded(max_rows * 4); }
  };
  // `on_device` [max_rows, num_logits()] is overwritten. `rows` and `pinned_rows` have rows_bytes()
  // each, and `pinned_values` has values_bytes().
  struct Memory {
    float* on_device;
    Arena& rows;
    Arena& pinned_rows;
    Arena& pinned_values;
  };
  GpuLogits(const Shape& shape, Device& device, Decoder& decoder, const Memory& memory);

  // Computes the logits of `tokens` and waits until on_host() has them, in this order.
  Status compute(std::span<const int32_t> tokens);
  std::span<float> on_host() { return expanded_.empty() ? computed_ : std::span<float>(expanded_); }

 private:
  Device& device_;
  Decoder& decoder_;
  Shape shape_;
  float* on_device_;
  int32_t* rows_on_device_;
  int32_t* pinned_rows_;
  std::span<float> computed_;    // pinned [max_rows, num_logits()]
  std::vector<float> expanded_;  // [max_rows, V], of a head with a token map
};

}  // namespace quire
