// These classes are a served model for targets that read bodies of requests: one token per byte, no
// engine.
#pragma once

#include <memory>
#include <string>

#include "server/openai/served_model.h"

namespace quire::fuzz {

class LetterCodec final : public TextCodec {
 public:
  Result<std::vector<TokenId>> encode(std::string_view text, bool) const override {
    std::vector<TokenId> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::string decode(std::span<const TokenId> ids, bool) const override {
    return std::string(ids.size(), 'x');
  }
  std::string token_bytes(TokenId) const override { return "x"; }
  std::string token_piece(TokenId) const override { return "x"; }
  std::vector<MarkToken> mark_tokens() const override {
    return {{1, "<fim_prefix>", true}, {2, "<fim_suffix>", true}, {3, "<fim_middle>", true}};
  }
  int32_t vocab_size() const override { return 256; }
};

inline ServedModel letter_model() {
  ServedModel served;
  served.names = {"m"};
  served.codec = std::make_shared<LetterCodec>();
  served.max_model_len = 4096;
  served.render_chat = [](const ChatRenderRequest& request) -> Result<std::string> {
    return std::string(request.messages.size(), 'm');
  };
  return served;
}

}  // namespace quire::fuzz
