// A tiktoken file has one "base64-of-bytes rank" a line; the rank is the id.
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

// TiktokenEncoding holds what a tiktoken file does not say.
struct TiktokenEncoding {
  std::string pattern{};  // how text is cut into words
  std::vector<std::pair<std::string, TokenId>> special_tokens{};
  std::string eos_token{};  // one of the special tokens, or empty
};

// Known names are r50k_base (also gpt2), p50k_base, p50k_edit, cl100k_base, o200k_base,
// o200k_harmony.
std::optional<TiktokenEncoding> tiktoken_encoding(std::string_view name);

Result<std::unique_ptr<Tokenizer>> tokenizer_from_tiktoken(std::string_view rank_text,
                                                           const TiktokenEncoding& encoding);

// Reads the tiktoken.model of Moonshot's Kimi models, whose special tokens are behind the pieces and
// have their names from tokenizer_config.json (`config_json`, may be empty).
Result<std::unique_ptr<Tokenizer>> tokenizer_from_kimi_tiktoken(std::string_view rank_text,
                                                                std::string_view config_json);

}  // namespace quire
