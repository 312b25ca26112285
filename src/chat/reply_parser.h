// Takes a model's reply apart as it comes: reasoning between <think> and </think>, tool calls
// (chat/tool_calls.h), and content. One parser serves streamed and whole answers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/tool_calls.h"

namespace quire {

enum class ReasoningFormat : uint8_t {
  kNone,
  kQwen3,       // a reply that begins with <think>
  kDeepSeekR1,  // the template has opened <think>: a reply begins inside, whether it says so or not
};
// "qwen3", "deepseek_r1"; empty gives kNone.
Result<ReasoningFormat> parse_reasoning_format(std::string_view name);

struct ReplyFormat {
  ReasoningFormat reasoning = ReasoningFormat::kNone;
  ToolCallFormat tools = ToolCallFormat::kNone;

  bool plain() const {
    return reasoning == ReasoningFormat::kNone && tools == ToolCallFormat::kNone;
  }
};

struct ReplyPart {
  enum class Kind : uint8_t { kContent, kReasoning, kToolCall };
  Kind kind = Kind::kContent;
  std::string text;  // of a tool call: its arguments, JSON
  std::string name;  // of a tool call
};

// Whatever way a reply is cut in pieces, the parts say the same. Text that may be the beginning of
// a mark is held back until it is decided; a tool call comes whole, when its end has come. What
// looked like calls and is none stays content, marks included. One thread.
class ReplyParser {
 public:
  explicit ReplyParser(ReplyFormat format);

  void feed(std::string_view text, std::vector<ReplyPart>& parts);
  // The reply has ended: what was held back. A call that a mark or another call announced and that
  // has not ended is no call, and no content: it is left out.
  void finish(std::vector<ReplyPart>& parts);

 private:
  enum class State : uint8_t { kStart, kReasoning, kOpening, kContent, kCalls };

  bool step(std::vector<ReplyPart>& parts);
  bool start();
  bool opening();
  bool pass_until(std::string_view mark, State next, std::vector<ReplyPart>& parts);
  bool next_call(std::vector<ReplyPart>& parts);
  void end_calls(size_t content_begin, std::vector<ReplyPart>& parts);
  void emit(ReplyPart::Kind kind, std::string_view text, std::vector<ReplyPart>& parts);

  const ReplyFormat format_;
  State state_ = State::kStart;
  std::string held_;
  bool announced_ = false;   // in kCalls: a mark or a call stands before held_
  bool any_call_ = false;    // in kCalls: a call does
  bool after_call_ = false;  // blanks here are not content
};

}  // namespace quire
