#include "server/openai/logprob_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/utf8.h"

namespace quire::server {
namespace {

namespace json = boost::json;

// JSON has no infinities.
double printable_logprob(float logprob) {
  return std::isfinite(logprob) ? std::max(static_cast<double>(logprob), -9999.0) : -9999.0;
}

size_t num_shown(const TokenLogprobs& token, int32_t num_top) {
  return num_top < 0 ? token.top.size() : std::min(token.top.size(), static_cast<size_t>(num_top));
}

json::array bytes_json(const std::string& bytes) {
  json::array out;
  out.reserve(bytes.size());
  for (const char c : bytes) out.emplace_back(static_cast<int64_t>(static_cast<unsigned char>(c)));
  return out;
}

json::object chat_token(TokenId id, float logprob, const TokenPrinter& printer) {
  json::object out;
  out["token"] = printer.text(id);
  out["logprob"] = printable_logprob(logprob);
  out["bytes"] = bytes_json(printer.codec.token_bytes(id));
  return out;
}

}  // namespace

int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

std::string TokenPrinter::text(TokenId token_id) const {
  if (as_ids) return fmt::format("token_id:{}", token_id);
  return to_valid_utf8(codec.token_bytes(token_id));
}

json::object chat_logprob(const TokenLogprobs& token, int32_t num_top,
                          const TokenPrinter& printer) {
  json::object out = chat_token(token.token_id, token.logprob, printer);
  json::array top;
  for (size_t i = 0; i < num_shown(token, num_top); ++i) {
    top.emplace_back(chat_token(token.top[i].first, token.top[i].second, printer));
  }
  out["top_logprobs"] = std::move(top);
  return out;
}

void CompletionLogprobs::add_common(const std::string& text) {
  text_offsets_.emplace_back(offset_);
  tokens_.emplace_back(text);
  offset_ += count_characters(text);
}

void CompletionLogprobs::add_plain(TokenId token_id, const TokenPrinter& printer) {
  add_common(printer.text(token_id));
  token_logprobs_.emplace_back(nullptr);
  top_logprobs_.emplace_back(nullptr);
}

void CompletionLogprobs::add(const TokenLogprobs& token, int32_t num_top,
                             const TokenPrinter& printer) {
  const std::string text = printer.text(token.token_id);
  add_common(text);
  token_logprobs_.emplace_back(printable_logprob(token.logprob));
  json::object top;
  top[text] = printable_logprob(token.logprob);
  for (size_t i = 0; i < num_shown(token, num_top); ++i) {
    // Tokens with the same text share a key, which the likelier one gets.
    top.emplace(printer.text(token.top[i].first), printable_logprob(token.top[i].second));
  }
  top_logprobs_.emplace_back(std::move(top));
}

json::object CompletionLogprobs::take() {
  json::object out;
  out["text_offset"] = std::move(text_offsets_);
  out["token_logprobs"] = std::move(token_logprobs_);
  out["tokens"] = std::move(tokens_);
  out["top_logprobs"] = std::move(top_logprobs_);
  return out;
}

json::array prompt_logprobs_json(std::span<const TokenLogprobs> tokens, int32_t num_top,
                                 const TokenPrinter& printer) {
  json::array out;
  out.emplace_back(nullptr);
  for (const TokenLogprobs& token : tokens) {
    json::object entry;
    const auto put = [&](TokenId id, float logprob, int64_t rank) {
      json::object one;
      one["logprob"] = printable_logprob(logprob);
      one["rank"] = rank;
      one["decoded_token"] = to_valid_utf8(printer.codec.token_bytes(id));
      entry.emplace(std::to_string(id), std::move(one));
    };
    put(token.token_id, token.logprob, token.rank);
    for (size_t i = 0; i < num_shown(token, num_top); ++i) {
      put(token.top[i].first, token.top[i].second, static_cast<int64_t>(i) + 1);
    }
    out.emplace_back(std::move(entry));
  }
  return out;
}

}  // namespace quire::server
