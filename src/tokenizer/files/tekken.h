// tekken.json is Mistral's own tokenizer format: ranked pieces, a pattern and special tokens. Model
// folders without a tokenizer.json may have it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace quire {

struct TekkenTokenizer {
  std::unique_ptr<Tokenizer> tokenizer;  // puts BOS before a text
  std::string version;                   // "v3", "v7", "v11" …; decides the chat format
};

// Reads a tekken.json. Special tokens have the first ids; the pieces follow by rank. A file of
// version 7 or older may leave out its special tokens, which are then the twenty known ones.
// (Source: mistral-common, tekken.py.)
Result<TekkenTokenizer> tokenizer_from_tekken(std::string_view text);

}  // namespace quire
