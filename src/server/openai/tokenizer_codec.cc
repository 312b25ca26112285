#include "server/openai/tokenizer_codec.h"

#include <utility>

#include "base/utf8.h"
#include "server/openai/logprob_format.h"
#include "tokenizer/tokenizer.h"

namespace quire {
namespace {

// The tokenizer takes texts below 2 GiB. A rendered chat template could be longer than the body of
// its request.
constexpr size_t kMaxTextBytes = size_t{1} << 30;

class TokenizerCodec final : public TextCodec {
 public:
  explicit TokenizerCodec(std::shared_ptr<const Tokenizer> tokenizer)
      : tokenizer_(std::move(tokenizer)) {}

  Result<std::vector<TokenId>> encode(std::string_view text,
                                      bool add_special_tokens) const override {
    if (text.size() > kMaxTextBytes) {
      return too_large("expected a text of at most {} bytes, got {}", kMaxTextBytes, text.size());
    }
    EncodeOptions options;
    options.add_special_tokens = add_special_tokens;
    return tokenizer_->encode(text, options);
  }
  Result<EncodedPair> encode_pair(std::string_view first, std::string_view second,
                                  int64_t max_tokens) const override {
    if (first.size() > kMaxTextBytes || second.size() > kMaxTextBytes) {
      return too_large("expected texts of at most {} bytes, got {} and {}", kMaxTextBytes,
                       first.size(), second.size());
    }
    return tokenizer_->encode_pair(first, second, max_tokens);
  }
  std::string decode(std::span<const TokenId> token_ids, bool keep_special) const override {
    DecodeOptions options;
    options.skip_special_tokens = !keep_special;
    return tokenizer_->decode(token_ids, options);
  }
  std::string token_bytes(TokenId token_id) const override {
    return tokenizer_->token_bytes(token_id);
  }
  std::string token_piece(TokenId token_id) const override {
    return to_valid_utf8(tokenizer_->token_to_piece(token_id));
  }
  std::vector<MarkToken> mark_tokens() const override {
    std::vector<MarkToken> tokens;
    for (TokenId id = 0; id < tokenizer_->vocab_size(); ++id) {
      if (!tokenizer_->is_added(id)) continue;
      const std::string_view piece = tokenizer_->token_to_piece(id);
      tokens.push_back({id, std::string(piece), tokenizer_->is_special(id)});
    }
    return tokens;
  }
  int32_t vocab_size() const override { return tokenizer_->vocab_size(); }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;  // shared with the engine
};

class IdsOnlyCodec final : public TextCodec {
 public:
  explicit IdsOnlyCodec(int32_t vocab_size) : vocab_size_(vocab_size) {}
  Result<std::vector<TokenId>> encode(std::string_view, bool) const override {
    return invalid_argument("the model has no tokenizer; send token ids");
  }
  std::string decode(std::span<const TokenId>, bool) const override { return {}; }
  std::string token_bytes(TokenId) const override { return {}; }
  std::string token_piece(TokenId) const override { return {}; }
  int32_t vocab_size() const override { return vocab_size_; }

 private:
  int32_t vocab_size_;
};

}  // namespace

std::shared_ptr<const TextCodec> make_ids_only_codec(int32_t vocab_size) {
  return std::make_shared<IdsOnlyCodec>(vocab_size);
}

std::shared_ptr<const TextCodec> make_text_codec(std::shared_ptr<const Tokenizer> tokenizer) {
  return std::make_shared<TokenizerCodec>(std::move(tokenizer));
}

}  // namespace quire
