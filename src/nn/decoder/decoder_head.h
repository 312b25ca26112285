// Computes final hidden states, logits and pooled scores from the residual stream behind the last
// layer.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/api/linear.h"
#include "nn/decoder_buffers.h"
#include "nn/decoder_spec.h"
#include "nn/products/linear_product.h"
#include "nn/weights/decoder_weights.h"
#include "tensor/activations.h"

namespace quire {

// Reads the residual stream that the decoder's last forward() has computed. Borrows its arguments.
// One thread at a time may use it.
class DecoderHead {
 public:
  // Buffers of the decoder.
  struct Rows {
    float* hidden;       // [T, E]: the residual stream
    Activations normed;  // [T, E]: overwritten
  };
  DecoderHead(const DecoderSpec& spec, const DecoderWeights& weights, const DecoderLimits& limits,
              BatchLinears& linears, const Rows& rows);

  // Writes to out [rows.size(), DecoderSpec::num_logits()] the raw logits of the given tokens, of
  // which there are at most max_logit_rows. `rows` is in memory of the device. With ranks, every
  // rank calls it, and `out` is the group's RankExchange::logits().
  void logits(std::span<const int32_t> rows, float* out);
  // Returns whether greatest_logits() can be called. It cannot with a soft cap, which can make
  // different logits equal.
  bool finds_greatest() const;
  // As logits(), but keeps only the greatest logit of each row, in the first rows.size() of `found`
  // [threads, rows.size()]. `scratch` has the size of `out`, and `allowed` is that of LinearParams.
  // It works on CPUs only. Returns false if an adapter changes the head for some of the rows; then
  // logits() must be called.
  bool greatest_logits(std::span<const int32_t> rows, float* scratch, RowGreatest* found,
                       const uint32_t* const* allowed);

  // Returns the residual stream [T, E] after the final norm, which overwrites it. Called at most
  // once per forward(), instead of logits().
  const float* final_hidden(int64_t num_tokens);
  // Writes to out [T, E] the input of the head for each token: the residual stream after the final
  // norm.
  void head_inputs(int64_t num_tokens, float* out);

  // Computes layer `index` of DecoderSpec::pooling: y [R, outputs] from x [R, inputs], for up to
  // kMaxPooledRows rows. x is of the type that products read.
  void pooling_layer(size_t index, ConstActivations x, float* y, int64_t num_rows);

 private:
  void norm(Activations out, int64_t num_tokens, const int32_t* rows = nullptr);
  // Writes the given rows, after the final norm if there is one, into rows_.normed; returns their
  // number.
  int64_t norm_of(std::span<const int32_t> rows);

  const DecoderSpec& spec_;
  const DecoderWeights& weights_;
  int64_t max_logit_rows_;
  BatchLinears& linears_;
  Stream& stream_;
  Rows rows_;
};

}  // namespace quire
