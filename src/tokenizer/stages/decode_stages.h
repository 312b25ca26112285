// These are the stages of a DecodeStream, private to the decoder.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/stages/decoder.h"

namespace quire {

// A stage puts its tokens into a TokenSink: the next stage, or the text.
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

// A stage takes one token at a time, or, behind a stage that fuses, the chunks of the only token.
class DecodeStream::Stage {
 public:
  virtual ~Stage() = default;
  virtual void push(std::string_view token, const TokenSink& sink) = 0;
  virtual void finish(const TokenSink&) {}
};

// Returns the stage for `step`. `fused` says whether its input is one token in chunks; the call
// sets it to whether the stage's output is.
std::unique_ptr<DecodeStream::Stage> make_decode_stage(const DecoderStep& step,
                                                       DecodeStream::Mode mode, bool& fused);

// Does WordPiece's own clean-up of one token.
std::string clean_up_wordpiece(std::string_view token);

// Returns the byte that a piece such as "<0x0A>" stands for, -1 for other pieces.
int fallback_byte(std::string_view piece);

}  // namespace quire
