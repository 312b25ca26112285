#include "exec/sources/text_encoder.h"

#include <algorithm>
#include <utility>

#include "exec/media/encoder_output.h"

namespace quire {

TextEncoder::TextEncoder(DecoderSpec spec, int32_t max_tokens, const WeightOptions& options,
                         HostStream& stream)
    : spec_(std::move(spec)), max_tokens_(max_tokens), stack_(spec_, options, max_tokens, stream) {}

Result<std::unique_ptr<TextEncoder>> TextEncoder::open(const ModelConfig& config,
                                                       int32_t max_tokens,
                                                       const WeightOptions& options,
                                                       const QuantConfig& quantization,
                                                       const TensorSource& source,
                                                       WeightPacking& packing, HostStream& stream) {
  QUIRE_ASSIGN_OR_RETURN(DecoderSpec spec, make_decoder_spec(config, max_tokens, options.dtype));
  std::unique_ptr<TextEncoder> encoder(
      new TextEncoder(std::move(spec), max_tokens, options, stream));
  QUIRE_RETURN_IF_ERROR(
      encoder->stack_.open(source, checkpoint_names(config), quantization, packing));
  return encoder;
}

Result<SourceRows> TextEncoder::encode(const MediaItem& item) {
  const auto count = static_cast<int32_t>(item.text.size());
  if (count < 1 || count > max_tokens_)
    return invalid_argument("source: expected 1 to {} tokens, got {}", max_tokens_, count);
  const auto is_known = [&](TokenId id) { return id >= 0 && id < spec_.vocab_size; };
  if (!std::all_of(item.text.begin(), item.text.end(), is_known))
    return invalid_argument("source: expected token ids in [0, {})", spec_.vocab_size);
  const float* const rows = stack_.run_tokens(item.text.data(), count);
  QUIRE_RETURN_IF_ERROR(
      check_encoder_output("source", {rows, static_cast<size_t>(count * spec_.hidden_size)}));
  return SourceRows{rows, count};
}

}  // namespace quire
