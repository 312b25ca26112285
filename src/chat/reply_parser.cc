#include "chat/reply_parser.h"

#include <algorithm>
#include <utility>

namespace quire {
namespace {

constexpr std::string_view kThink = "<think>";
constexpr std::string_view kEndThink = "</think>";
constexpr std::string_view kBlanks = " \t\r\n";

// Bytes at the end of `text` that may be the beginning of `mark`.
size_t open_end(std::string_view text, std::string_view mark) {
  for (size_t size = std::min(text.size(), mark.size() - 1); size > 0; --size) {
    if (text.ends_with(mark.substr(0, size))) return size;
  }
  return 0;
}

}  // namespace

Result<ReasoningFormat> parse_reasoning_format(std::string_view name) {
  if (name.empty()) return ReasoningFormat::kNone;
  if (name == "qwen3") return ReasoningFormat::kQwen3;
  if (name == "deepseek_r1") return ReasoningFormat::kDeepSeekR1;
  return invalid_argument("reasoning-parser: expected qwen3 or deepseek_r1, got {}", name);
}

ReplyParser::ReplyParser(ReplyFormat format) : format_(format) {}

void ReplyParser::feed(std::string_view text, std::vector<ReplyPart>& parts) {
  held_ += text;
  while (step(parts)) {
  }
}

void ReplyParser::finish(std::vector<ReplyPart>& parts) {
  if (state_ == State::kCalls && announced_) return;
  emit(state_ == State::kReasoning ? ReplyPart::Kind::kReasoning : ReplyPart::Kind::kContent, held_,
       parts);
  held_.clear();
}

// False when more text is needed.
bool ReplyParser::step(std::vector<ReplyPart>& parts) {
  switch (state_) {
    case State::kStart:
      return start();
    case State::kReasoning:
      return pass_until(kEndThink, State::kOpening, parts);
    case State::kOpening:
      return opening();
    case State::kContent:
      if (format_.tools == ToolCallFormat::kNone) {
        emit(ReplyPart::Kind::kContent, held_, parts);
        held_.clear();
        return false;
      }
      return pass_until(tool_call_mark(format_.tools), State::kCalls, parts);
    case State::kCalls:
      return next_call(parts);
  }
  return false;
}

// Whether the reply begins with <think>, blanks aside.
bool ReplyParser::start() {
  if (format_.reasoning == ReasoningFormat::kNone) {
    state_ = State::kOpening;
    return !held_.empty();
  }
  const size_t begin = std::min(held_.find_first_not_of(kBlanks), held_.size());
  const std::string_view text = std::string_view(held_).substr(begin);
  if (text.size() < kThink.size() && kThink.starts_with(text)) return false;
  const bool marked = text.starts_with(kThink);
  if (marked) held_.erase(0, begin + kThink.size());
  const bool inside = marked || format_.reasoning == ReasoningFormat::kDeepSeekR1;
  state_ = inside ? State::kReasoning : State::kOpening;
  return true;
}

// Llama needs no mark for calls that an answer begins with.
bool ReplyParser::opening() {
  if (format_.tools != ToolCallFormat::kLlama3Json) {
    state_ = State::kContent;
    return true;
  }
  const size_t begin = held_.find_first_not_of(kBlanks);
  if (begin == held_.npos) return false;
  state_ = held_[begin] == '{' ? State::kCalls : State::kContent;
  return true;
}

// Lets everything up to `mark` through; behind it the next state begins.
bool ReplyParser::pass_until(std::string_view mark, State next, std::vector<ReplyPart>& parts) {
  const ReplyPart::Kind kind =
      state_ == State::kReasoning ? ReplyPart::Kind::kReasoning : ReplyPart::Kind::kContent;
  const size_t at = held_.find(mark);
  const size_t size = at != held_.npos ? at : held_.size() - open_end(held_, mark);
  emit(kind, std::string_view(held_).substr(0, size), parts);
  held_.erase(0, at != held_.npos ? at + mark.size() : size);
  if (at == held_.npos) return false;
  state_ = next;
  announced_ = next == State::kCalls;
  return true;
}

bool ReplyParser::next_call(std::vector<ReplyPart>& parts) {
  ToolCallScan scan = scan_tool_call(format_.tools, held_);
  switch (scan.kind) {
    case ToolCallScan::Kind::kOpen:
      return false;
    case ToolCallScan::Kind::kOther:
      end_calls(scan.begin, parts);
      return true;
    case ToolCallScan::Kind::kCall:
      break;
  }
  parts.push_back({.kind = ReplyPart::Kind::kToolCall,
                   .text = std::move(scan.call.arguments),
                   .name = std::move(scan.call.name)});
  after_call_ = true;
  announced_ = true;
  any_call_ = true;
  held_.erase(0, scan.end);
  // Each of Hermes' calls has marks of its own.
  if (format_.tools == ToolCallFormat::kHermes) end_calls(0, parts);
  return true;
}

// Content goes on, behind what separated it from a call. Where there was no call the mark is
// content too, and what follows is no call in spite of it.
void ReplyParser::end_calls(size_t content_begin, std::vector<ReplyPart>& parts) {
  if (any_call_) {
    held_.erase(0, content_begin);
  } else if (announced_) {
    emit(ReplyPart::Kind::kContent, tool_call_mark(format_.tools), parts);
  }
  announced_ = false;
  any_call_ = false;
  state_ = State::kContent;
}

void ReplyParser::emit(ReplyPart::Kind kind, std::string_view text, std::vector<ReplyPart>& parts) {
  if (after_call_) text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  if (text.empty()) return;
  after_call_ = false;
  if (!parts.empty() && parts.back().kind == kind && kind != ReplyPart::Kind::kToolCall) {
    parts.back().text += text;
  } else {
    parts.push_back({.kind = kind, .text = std::string(text), .name = {}});
  }
}

}  // namespace quire
