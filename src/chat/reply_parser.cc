#include "chat/reply_parser.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

namespace quire {
namespace {

constexpr std::string_view kThink = "<think>";
constexpr std::string_view kEndThink = "</think>";
constexpr std::string_view kCall = "<tool_call>";
constexpr std::string_view kEndCall = "</tool_call>";
constexpr std::string_view kBlanks = " \t\r\n";

// Bytes at the end of `text` that may be the beginning of `mark`.
size_t open_end(std::string_view text, std::string_view mark) {
  for (size_t size = std::min(text.size(), mark.size() - 1); size > 0; --size) {
    if (text.ends_with(mark.substr(0, size))) return size;
  }
  return 0;
}

std::optional<ReplyPart> read_call(std::string_view body) {
  boost::json::error_code error;
  boost::json::value value = boost::json::parse({body.data(), body.size()}, error);
  if (error || !value.is_object()) return std::nullopt;
  const boost::json::value* name = value.get_object().if_contains("name");
  const boost::json::value* arguments = value.get_object().if_contains("arguments");
  if (name == nullptr || !name->is_string()) return std::nullopt;
  ReplyPart part{.kind = ReplyPart::Kind::kToolCall};
  part.name = std::string(name->get_string());
  part.text = arguments == nullptr ? "{}" : boost::json::serialize(*arguments);
  return part;
}

}  // namespace

Result<ReasoningFormat> parse_reasoning_format(std::string_view name) {
  if (name.empty()) return ReasoningFormat::kNone;
  if (name == "qwen3") return ReasoningFormat::kQwen3;
  if (name == "deepseek_r1") return ReasoningFormat::kDeepSeekR1;
  return invalid_argument("reasoning-parser: expected qwen3 or deepseek_r1, got {}", name);
}

Result<ToolCallFormat> parse_tool_call_format(std::string_view name) {
  if (name.empty()) return ToolCallFormat::kNone;
  if (name == "hermes") return ToolCallFormat::kHermes;
  return invalid_argument("tool-call-parser: expected hermes, got {}", name);
}

ReplyParser::ReplyParser(ReplyFormat format) : format_(format) {}

void ReplyParser::feed(std::string_view text, std::vector<ReplyPart>& parts) {
  held_ += text;
  while (step(parts)) {
  }
}

void ReplyParser::finish(std::vector<ReplyPart>& parts) {
  if (state_ == State::kToolCall) return;
  emit(state_ == State::kReasoning ? ReplyPart::Kind::kReasoning : ReplyPart::Kind::kContent, held_,
       parts);
  held_.clear();
}

// False when more text is needed.
bool ReplyParser::step(std::vector<ReplyPart>& parts) {
  switch (state_) {
    case State::kStart:
      return start(parts);
    case State::kReasoning:
      return pass_until(kEndThink, State::kContent, parts);
    case State::kContent:
      if (format_.tools == ToolCallFormat::kNone) {
        emit(ReplyPart::Kind::kContent, held_, parts);
        held_.clear();
        return false;
      }
      return pass_until(kCall, State::kToolCall, parts);
    case State::kToolCall:
      return tool_call(parts);
  }
  return false;
}

// Whether the reply begins with <think>, blanks aside.
bool ReplyParser::start(std::vector<ReplyPart>&) {
  if (format_.reasoning == ReasoningFormat::kNone) {
    state_ = State::kContent;
    return !held_.empty();
  }
  const size_t begin = std::min(held_.find_first_not_of(kBlanks), held_.size());
  const std::string_view text = std::string_view(held_).substr(begin);
  if (text.size() < kThink.size() && kThink.starts_with(text)) return false;
  const bool marked = text.starts_with(kThink);
  if (marked) held_.erase(0, begin + kThink.size());
  const bool inside = marked || format_.reasoning == ReasoningFormat::kDeepSeekR1;
  state_ = inside ? State::kReasoning : State::kContent;
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
  return true;
}

bool ReplyParser::tool_call(std::vector<ReplyPart>& parts) {
  const size_t at = held_.find(kEndCall);
  if (at == held_.npos) return false;
  std::optional<ReplyPart> call = read_call(std::string_view(held_).substr(0, at));
  if (call) {
    parts.push_back(std::move(*call));
    after_call_ = true;
  } else {
    emit(ReplyPart::Kind::kContent, kCall, parts);
    emit(ReplyPart::Kind::kContent, std::string_view(held_).substr(0, at + kEndCall.size()), parts);
  }
  held_.erase(0, at + kEndCall.size());
  state_ = State::kContent;
  return true;
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
