// Log-probabilities as the two endpoints print them.
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

  // Valid UTF-8; bytes that are no character of their own become U+FFFD.
  std::string text(TokenId token_id) const;
};

// Chat: {token, logprob, bytes, top_logprobs[]} with up to `num_top` alternatives, most likely
// first; -1: all.
boost::json::object chat_logprob(const TokenLogprobs& token, int32_t num_top,
                                 const TokenPrinter& printer);

// Completions: four parallel lists, built token by token.
class CompletionLogprobs {
 public:
  // `text_offset`: characters before the first token.
  explicit CompletionLogprobs(int64_t text_offset) : offset_(text_offset) {}
  // A token without a log-probability: the first one of a prompt.
  void add_plain(TokenId token_id, const TokenPrinter& printer);
  // The token itself, then up to `num_top` others, most likely first; -1: all.
  void add(const TokenLogprobs& token, int32_t num_top, const TokenPrinter& printer);
  int64_t text_offset() const { return offset_; }
  boost::json::object take();

 private:
  void add_common(const std::string& text);
  int64_t offset_;
  boost::json::array text_offsets_, token_logprobs_, tokens_, top_logprobs_;
};

// prompt_logprobs: [null, {"<id>": {logprob, rank, decoded_token}, …}, …], one entry per prompt
// token.
boost::json::array prompt_logprobs_json(std::span<const TokenLogprobs> tokens, int32_t num_top,
                                        const TokenPrinter& printer);

// Number of characters (code points) of valid UTF-8.
int64_t count_characters(std::string_view text);

}  // namespace quire::server
