// A tekken.json is Mistral's own form of a tokenizer: ranked pieces, a pattern and special tokens.
// Models whose folder has no tokenizer.json have it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace quire {

struct TekkenTokenizer {
  std::unique_ptr<Tokenizer> tokenizer;  // puts BOS before a text
  std::string version;                   // "v3", "v7", "v11" …; it decides how chats are written
};

// Ids of special tokens come first; the pieces follow by rank. A file of version 7 or older may
// leave its special tokens out: they are the known twenty then. (Source: mistral-common, tekken.py.)
Result<TekkenTokenizer> tokenizer_from_tekken(std::string_view text);

}  // namespace quire
