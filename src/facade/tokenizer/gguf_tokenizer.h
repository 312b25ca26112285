#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "tokenizer/files/gguf_vocab.h"
#include "weights/gguf/gguf.h"

namespace quire {

// Returns the vocabulary in a GGUF file's metadata; nullopt if there is none. kDataLoss: a key has
// another type than expected.
Result<std::optional<GgufVocab>> read_gguf_vocab(const GgufFile& file);

// Returns "tokenizer.chat_template"; nullopt when it is absent.
Result<std::optional<std::string>> read_gguf_chat_template(const GgufFile& file);

}  // namespace quire
