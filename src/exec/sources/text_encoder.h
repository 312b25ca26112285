// TextEncoder computes on the host the rows that a decoder's cross-attention reads from a text's
// tokens.
#pragma once

#include <memory>

#include "exec/sources/encoder_stack.h"
#include "exec/sources/source_encoder.h"
#include "models/model_config.h"

namespace quire {

class TextEncoder final : public SourceEncoder {
 public:
  // Finds and checks the encoder's tensors, for texts of up to max_tokens, without reading any.
  // Borrows stream and packing. `source` must outlive load().
  static Result<std::unique_ptr<TextEncoder>> open(const ModelConfig& config, int32_t max_tokens,
                                                   const WeightOptions& options,
                                                   const QuantConfig& quantization,
                                                   const TensorSource& source,
                                                   WeightPacking& packing, HostStream& stream);

  const DecoderSpec& layers() const override { return spec_; }
  int64_t weight_bytes() const override { return stack_.weight_bytes(); }
  int64_t workspace_bytes() const override { return stack_.workspace_bytes(); }
  Status load(const LoadOptions& options) override { return stack_.load(options, 0); }
  Result<SourceRows> encode(const MediaItem& item) override;

 private:
  TextEncoder(DecoderSpec spec, int32_t max_tokens, const WeightOptions& options,
              HostStream& stream);

  const DecoderSpec spec_;
  const int32_t max_tokens_;
  EncoderStack stack_;
};

}  // namespace quire
