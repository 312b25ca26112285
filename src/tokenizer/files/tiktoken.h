// A tiktoken file has one line "base64-of-bytes rank" per piece; the rank is the id.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace quire {

// TiktokenEncoding holds the parts of an encoding that are not in its tiktoken file.
struct TiktokenEncoding {
  std::string pattern{};  // how text is cut into words
  std::vector<std::pair<std::string, TokenId>> special_tokens{};
  std::string eos_token{};  // one of the special tokens, or empty
};

// Returns the encoding of one of these names, or nullopt: r50k_base (also gpt2), p50k_base,
// p50k_edit, cl100k_base, o200k_base, o200k_harmony.
std::optional<TiktokenEncoding> tiktoken_encoding(std::string_view name);

Result<std::unique_ptr<Tokenizer>> tokenizer_from_tiktoken(std::string_view rank_text,
                                                           const TiktokenEncoding& encoding);

// Reads the tiktoken.model of Moonshot's Kimi models. Their special tokens have ids behind those of
// the pieces; tokenizer_config.json (`config_json`, may be empty) gives their names.
Result<std::unique_ptr<Tokenizer>> tokenizer_from_kimi_tiktoken(std::string_view rank_text,
                                                                std::string_view config_json);

}  // namespace quire
