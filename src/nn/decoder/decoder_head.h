// What becomes of the residual stream behind the last layer: final states, logits, pooled scores.
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

// Reads the residual stream that the decoder's last forward() left. Borrows what it is made of. One
// thread at a time may use it.
class DecoderHead {
 public:
  // These are the decoder's buffers.
  struct Rows {
    float* hidden;       // [T, E]: the residual stream
    Activations normed;  // [T, E]: overwritten
  };
  DecoderHead(const DecoderSpec& spec, const DecoderWeights& weights, const DecoderLimits& limits,
              BatchLinears& linears, const Rows& rows);

  // Writes to out [rows.size(), DecoderSpec::num_logits()] the raw logits of the given tokens,
  // which are at most max_logit_rows. `rows` lies where the device reads it. With ranks all of them
  // call it, and `out` is the group's RankExchange::logits().
  void logits(std::span<const int32_t> rows, float* out);
  // Whether greatest_logits() can be called: a soft cap may make equals of different logits.
  bool finds_greatest() const;
  // Does as logits(), but keeps only the greatest of each row, in the first rows.size() of `found`
  // [threads, rows.size()]. `scratch` is as `out`, and `allowed` as LinearParams::allowed. It works
  // on CPUs alone. False says that an adapter changes the head for some of the rows, so that only
  // logits() can tell.
  bool greatest_logits(std::span<const int32_t> rows, float* scratch, RowGreatest* found,
                       const uint32_t* const* allowed);

  // Returns [T, E], the residual stream behind the final norm, which overwrites it. It is called
  // instead of logits(), once.
  const float* final_hidden(int64_t num_tokens);
  // out [T, E]: what logits() reads of each token, behind the final norm.
  void head_inputs(int64_t num_tokens, float* out);

  // y [R, outputs] = layer `index` of DecoderSpec::pooling of x [R, inputs], for up to kMaxPooledRows
  // rows; x is of the type that products read.
  void pooling_layer(size_t index, ConstActivations x, float* y, int64_t num_rows);

 private:
  void norm(Activations out, int64_t num_tokens, const int32_t* rows = nullptr);
  // The given rows behind the final norm, if there is one, into rows_.normed; returns their number.
  int64_t norm_of(std::span<const int32_t> rows);

  const DecoderSpec& spec_;
  const DecoderWeights& weights_;
  int64_t max_logit_rows_;
  BatchLinears& linears_;
  Stream& stream_;
  Rows rows_;
};

}  // namespace quire
