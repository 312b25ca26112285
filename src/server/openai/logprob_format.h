// These functions print log-probabilities in the forms of the two endpoints.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/step.h"
#include "server/openai/served_model.h"

namespace quire::server {

struct TokenPrinter {
  const TextCodec& codec;
  bool as_ids = false;  // "token_id:N" instead of the text

  // Returns valid UTF-8. Bytes that are no complete character become U+FFFD.
  std::string text(TokenId token_id) const;
};

// Returns the form of chats: {token, logprob, bytes, top_logprobs[]} with up to `num_top`
// alternatives, the most likely first; -1: all.
boost::json::object chat_logprob(const TokenLogprobs& token, int32_t num_top,
                                 const TokenPrinter& printer);

// CompletionLogprobs builds the form of completions, which is four parallel lists, token by token.
class CompletionLogprobs {
 public:
  // `text_offset` is the number of characters before the first token.
  explicit CompletionLogprobs(int64_t text_offset) : offset_(text_offset) {}
  // Adds a token without a log-probability, which is the first token of a prompt.
  void add_plain(TokenId token_id, const TokenPrinter& printer);
  // Adds the token itself and up to `num_top` others, the most likely first; -1: all.
  void add(const TokenLogprobs& token, int32_t num_top, const TokenPrinter& printer);
  int64_t text_offset() const { return offset_; }
  boost::json::object take();

 private:
  void add_common(const std::string& text);
  int64_t offset_;
  boost::json::array text_offsets_, token_logprobs_, tokens_, top_logprobs_;
};

// Returns prompt_logprobs: [null, {"<id>": {logprob, rank, decoded_token}, …}, …], with one entry
// per prompt token.
boost::json::array prompt_logprobs_json(std::span<const TokenLogprobs> tokens, int32_t num_top,
                                        const TokenPrinter& printer);

// Returns the number of characters (code points) of valid UTF-8.
int64_t count_characters(std::string_view text);

}  // namespace quire::server
