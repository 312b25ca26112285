// ReasoningSplitter separates reasoning from the answer in streamed text, by the marks of a style
// alone. It is for programs that only show the text; reply_parser.h parses replies.
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
    std::string text;  // marks belong to the reasoning
    bool is_reasoning = false;
  };

  // A null `style` means that there is no reasoning.
  explicit ReasoningSplitter(const ReasoningStyle* style)
      : style_(style), place_(style == nullptr ? Place::kAnswer : Place::kBegin) {}

  // Returns the pieces that are certain after this text. The beginning of a possible mark is held
  // back. The pieces are all of the text, in order.
  std::vector<Piece> add(std::string_view text);
  // Returns the rest after the end of the answer.
  std::vector<Piece> finish();

 private:
  enum class Place { kBegin, kReasoning, kAnswer };

  bool step(bool is_last, std::vector<Piece>& pieces);
  // Releases the first `size` bytes of the held text.
  void release(size_t size, bool is_reasoning, std::vector<Piece>& pieces);

  const ReasoningStyle* style_;
  Place place_;
  std::string held_;
};

}  // namespace quire
