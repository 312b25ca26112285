// The stages of a DecodeStream. Private to the decoder.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/stages/decoder.h"

namespace quire {

// Where a stage puts its tokens: the next stage, or the text.
class TokenSink {
 public:
  TokenSink(std::vector<std::unique_ptr<DecodeStream::Stage>>& stages, size_t next,
            std::string& out)
      : stages_(stages), next_(next), out_(out) {}
  void put(std::string_view token) const;

 private:
  std::vector<std::unique_ptr<DecodeStream::Stage>>& stages_;
  size_t next_;
  std::string& out_;
};

// Takes tokens, or the chunks of the only token when what comes before it fuses.
class DecodeStream::Stage {
 public:
  virtual ~Stage() = default;
  virtual void push(std::string_view token, const TokenSink& sink) = 0;
  virtual void finish(const TokenSink&) {}
};

// The stage for `step`. `fused`: its input is one token in chunks; set when its output is.
std::unique_ptr<DecodeStream::Stage> make_decode_stage(const DecoderStep& step,
                                                       DecodeStream::Mode mode, bool& fused);

// WordPiece's own clean-up of one token.
std::string clean_up_wordpiece(std::string_view token);

// The byte that a piece such as "<0x0A>" stands for, -1 for other pieces.
int fallback_byte(std::string_view piece);

}  // namespace quire
