// A TextCodec over a Tokenizer, and one for a model that has none.
#pragma once

#include <memory>

#include "server/openai/served_model.h"

namespace quire {

// Shares the tokenizer with the engine's detokenizer.
std::shared_ptr<const TextCodec> make_text_codec(std::shared_ptr<const Tokenizer> tokenizer);

// For a model without a tokenizer: only token ids go in and out, text is refused with
// kInvalidArgument.
std::shared_ptr<const TextCodec> make_ids_only_codec(int32_t vocab_size);

}  // namespace quire
