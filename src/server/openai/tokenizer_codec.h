// These functions make a TextCodec from a Tokenizer, and one for a model that has none.
#pragma once

#include <memory>

#include "server/openai/served_model.h"

namespace quire {

// The engine's detokenizer shares the tokenizer.
std::shared_ptr<const TextCodec> make_text_codec(std::shared_ptr<const Tokenizer> tokenizer);

// Makes a codec for a model without a tokenizer. It only takes and returns token ids, and refuses
// text with kInvalidArgument.
std::shared_ptr<const TextCodec> make_ids_only_codec(int32_t vocab_size);

}  // namespace quire
