// Plans the memory that a decoder takes from its arena, by arithmetic.
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "nn/decoder_buffers.h"
#include "nn/decoder_spec.h"
#include "nn/weights/decoder_weights.h"
#include "tensor/activations.h"
#include "tensor/arena.h"

namespace quire {

// The bytes of the buffers that a Decoder takes from its arena.
struct DecoderMemory {
  int64_t activations = 0;  // with those of the experts
  int64_t linear_workspace = 0;
  int64_t attention_workspace = 0;  // with the cuts of the batch
  int64_t total() const { return activations + linear_workspace + attention_workspace; }
};
DecoderMemory decoder_memory(const DecoderSpec& spec, const DecoderWeights& weights,
                             const DecoderLimits& limits, const Stream& stream);

// Allocates `count` elements of the type that activations have between ops.
Activations allocate_activations(Arena& arena, const DecoderLimits& limits, int64_t count);

}  // namespace quire
