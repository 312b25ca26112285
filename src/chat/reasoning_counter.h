// How many of a reply's tokens are reasoning: those between <think> and </think>, the marks' own
// tokens not counted. A token whose bytes hold more than a mark counts where it begins.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "chat/reply_parser.h"

namespace quire {

// Fed with each token's bytes, in order; the count is exact after every token. One thread.
class ReasoningCounter {
 public:
  explicit ReasoningCounter(ReasoningFormat format);

  void feed(std::string_view token_bytes);
  int64_t num_tokens() const { return num_counted_ + num_open_; }

 private:
  enum class State : uint8_t { kStart, kReasoning, kDone };

  void start();
  void find_end();

  const ReasoningFormat format_;
  State state_;
  std::string held_;            // text that may be the beginning of a mark
  std::vector<size_t> begins_;  // of the tokens in held_, ascending
  int64_t num_counted_ = 0;     // tokens that have left held_
  int64_t num_open_ = 0;        // of held_: reasoning, unless a mark proves it otherwise
};

}  // namespace quire
