// StateBlock computes the mixers with a state of every layer that has one: input projection,
// convolution and recurrence, output norm and gate, output projection. It owns no memory; its
// buffers lie in the decoder's arena.
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "kernels/api/state.h"
#include "nn/adapters/lora_batch.h"
#include "nn/decoder_buffers.h"
#include "nn/decoder_spec.h"
#include "nn/weights/decoder_weights.h"
#include "tensor/activations.h"
#include "tensor/arena.h"

namespace quire {

// Borrows its arguments. One thread at a time may use it.
class StateBlock {
 public:
  // Returns the bytes that it takes from its arena; 0 without states.
  static int64_t memory_bytes(const DecoderSpec& spec, const BlockLimits& limits);

  StateBlock(const DecoderSpec& spec, const DecoderWeights& weights, const BlockLimits& limits,
             Stream& stream, Arena& arena, LoraBatch* lora);

  // The methods below are called in this order for a layer's mixer, for up to max_tokens tokens.
  // `linear_workspace` is the workspace of linear() for the layer's matrices. project() computes
  // the input projection of x [T, E].
  void project(size_t layer, ConstActivations x, int64_t num_tokens, void* linear_workspace);
  // Computes the convolution and the recurrence over the segments. `state` is the layer's state
  // (StateSpec::state_floats()).
  void mix(size_t layer, const StateSegments& segments, const StateView& state, int64_t num_tokens,
           void* linear_workspace);
  // out [T, E] += the output projection.
  void add_output(size_t layer, float* out, int64_t num_tokens, void* linear_workspace);

 private:
  struct Step;  // the arguments of a mix()

  void short_conv(const Step& step);
  void selective_scan(const Step& step);
  void ssd(const Step& step);
  void delta_rule(const Step& step);
  // Computes the convolution of the layer's channels, in place.
  void convolve(const Step& step);
  void normalize_keys(const Step& step);
  void finish_output(const Step& step, const float* gate, int64_t gate_stride);
  // y [T, N] = x W^T (+ bias), with rows of x x_stride apart.
  void multiply(const LinearWeights& weights, ConstActivations x, int64_t x_stride, float* y,
                int64_t num_tokens, bool accumulate, void* linear_workspace);

  const DecoderSpec& spec_;
  const DecoderWeights& weights_;
  Stream& stream_;
  LoraBatch* lora_;         // null: no adapters
  float* in_ = nullptr;     // [T, in_rows]
  float* mixed_ = nullptr;  // [T, I]
  float* steps_ = nullptr;  // [T, I], [T, H] or [T, H, Dk]
  float* decay_ = nullptr;  // [T, H] or [T, H, Dk]
  float* beta_ = nullptr;   // [T, H]
  // [T, R + 2 N] of a selective scan, or [T, I] for the gates of a decay per channel.
  float* narrow_ = nullptr;
  Activations read_;  // inputs of products, if these do not read floats
};

}  // namespace quire
