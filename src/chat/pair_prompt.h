// These functions write the prompts of rerankers that are asked in a chat (Qwen3-Reranker): their
// chat template writes a message of the role "query" and one of the role "document".
#pragma once

#include <boost/json/array.hpp>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace quire {

struct TextPair {
  std::string_view query;
  std::string_view document;
  std::string_view instruction =
      {};                  // for a message of the role "system"; empty: the template's own
  int64_t max_tokens = 0;  // a longer document is cut at its end; 0: no limit
};

// A model's functions to write and read text. They are called on the caller's thread.
struct PairCodec {
  std::function<Result<std::string>(boost::json::array messages)> render;
  std::function<Result<std::vector<TokenId>>(std::string_view text)> encode;
  std::function<std::string(std::span<const TokenId>)> decode;
};

// Returns whether the template names both roles.
bool writes_pairs(std::string_view template_source);

// Returns the prompt of a pair. Its errors are those of the codec. A prompt that is too long even
// without the document is returned as it is.
Result<std::vector<TokenId>> encode_pair(const TextPair& pair, const PairCodec& codec);

}  // namespace quire
