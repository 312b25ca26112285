// Tells reasoning from the answer in text as it streams, by the marks of a style alone: for those who
// only show it. What a reply is taken apart into is reply_parser.h's to say.
//
//   ReasoningSplitter splitter(find_reasoning_style("qwen3"));
//   for (const auto& piece : splitter.add(text)) show(piece.text, piece.is_reasoning);
//   for (const auto& piece : splitter.finish()) …
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/reply/reasoning_style.h"

namespace quire {

class ReasoningSplitter {
 public:
  struct Piece {
    std::string text;  // marks are part of the reasoning
    bool is_reasoning = false;
  };

  // Null: there is no reasoning.
  explicit ReasoningSplitter(const ReasoningStyle* style)
      : style_(style), place_(style == nullptr ? Place::kAnswer : Place::kBegin) {}

  // What can be told after this text: a mark that may have begun is held back. The pieces are all
  // the text, in order.
  std::vector<Piece> add(std::string_view text);
  // What is left when the answer has ended.
  std::vector<Piece> finish();

 private:
  enum class Place { kBegin, kReasoning, kAnswer };

  bool step(bool is_last, std::vector<Piece>& pieces);
  // Releases the first `size` bytes of what is held.
  void release(size_t size, bool is_reasoning, std::vector<Piece>& pieces);

  const ReasoningStyle* style_;
  Place place_;
  std::string held_;
};

}  // namespace quire
