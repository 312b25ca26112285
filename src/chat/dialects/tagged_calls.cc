// This reads calls whose parameters stand one by one between tags: Qwen3-Coder, GLM, MiniMax,
// DeepSeek V3.2. Their values are text, and the tool's schema says which JSON they stand for.
#include <algorithm>
#include <array>
#include <utility>

#include "chat/dialects/call_reader.h"
#include "chat/reply/json_scanner.h"

namespace quire {
namespace {

class TaggedCallReader final : public CallReader {
 public:
  TaggedCallReader(const Dialect& dialect, const TaggedCallStyle& style)
      : dialect_(dialect), style_(style) {}

  ReadStep step(ReplyInput& in, ReplySink& sink) override {
    switch (state_) {
      case State::kOpening:
        return opening(in);
      case State::kBetween:
        return between(in);
      case State::kName:
        return name(in);
      case State::kParameters:
        return parameters(in, sink);
      case State::kParameterName:
        return parameter_name(in, sink);
      case State::kValueBegin:
        return value_begin(in, sink);
      case State::kValue:
        return value(in, sink);
    }
    return ReadStep::kNoCall;
  }

 private:
  enum class State : uint8_t {
    kOpening,
    kBetween,     // between calls
    kName,        // of the function
    kParameters,  // between parameters
    kParameterName,
    kValueBegin,
    kValue,
  };

  ReadStep go(State state) {
    state_ = state;
    return ReadStep::kAgain;
  }
  ReadStep more(const ReplyInput& in) { return in.ended() ? ReadStep::kNoCall : ReadStep::kMore; }
  ReadStep over() const { return had_call_ ? ReadStep::kDone : ReadStep::kNoCall; }

  // The mark before a call may come without the opening before it.
  ReadStep opening(ReplyInput& in) {
    if (in.match(style_.call_begin) == Match::kYes) return go(State::kBetween);
    const ReadStep skipped = skip_opening(dialect_, in);
    return skipped == ReadStep::kAgain ? go(State::kBetween) : skipped;
  }

  ReadStep between(ReplyInput& in) {
    while (in.skip_blanks()) {
      const Match begin = in.match(style_.call_begin);
      if (begin == Match::kYes) {
        in.skip(style_.call_begin.size());
        return go(State::kName);
      }
      const Match close = style_.close.empty() ? Match::kNo : in.match(style_.close);
      if (close == Match::kYes) {
        in.skip(style_.close.size());
        return over();
      }
      if (begin == Match::kOpen || close == Match::kOpen) return ReadStep::kMore;
      const ReadStep reopened = skip_opening(dialect_, in);
      if (reopened == ReadStep::kNoCall) return over();
      if (reopened == ReadStep::kMore) return reopened;
    }
    return in.ended() ? over() : ReadStep::kMore;
  }

  // Reads the name up to its end mark. A style without one ends it at the first character that is
  // not allowed in names.
  ReadStep name(ReplyInput& in) {
    if (!in.skip_blanks()) return more(in);
    const std::string_view text = in.rest();
    size_t size = 0;
    while (size < text.size() && size <= kMaxNameBytes && is_name_char(text[size])) ++size;
    if (size == text.size() && size <= kMaxNameBytes) return more(in);
    if (size == 0 || size > kMaxNameBytes) return ReadStep::kNoCall;
    if (!style_.name_end.empty()) {
      const std::string_view behind = text.substr(size);
      if (behind.size() < style_.name_end.size() &&
          std::string_view(style_.name_end).starts_with(behind)) {
        return more(in);
      }
      if (!behind.starts_with(style_.name_end)) return ReadStep::kNoCall;
    }
    name_ = text.substr(0, size);
    in.skip(size + style_.name_end.size());
    is_begun_ = false;
    num_parameters_ = 0;
    return go(State::kParameters);
  }

  void begin(ReplyInput& in, ReplySink& sink) {
    in.commit();
    if (!is_begun_) sink.begin_call(name_);
    is_begun_ = true;
  }

  ReadStep parameters(ReplyInput& in, ReplySink& sink) {
    if (!in.skip_blanks()) return more(in);
    const Match parameter = in.match(style_.parameter_begin);
    const Match end = in.match(style_.call_end);
    if (parameter == Match::kYes) {
      in.skip(style_.parameter_begin.size());
      return go(State::kParameterName);
    }
    if (end == Match::kYes) {
      in.skip(style_.call_end.size());
      begin(in, sink);
      sink.arguments(num_parameters_ == 0 ? "{}" : "}");
      sink.end_call(true);
      had_call_ = true;
      return go(State::kBetween);
    }
    const bool may_come = parameter == Match::kOpen || end == Match::kOpen;
    return may_come ? ReadStep::kMore : ReadStep::kNoCall;
  }

  ReadStep parameter_name(ReplyInput& in, ReplySink& sink) {
    const std::string_view text = in.rest();
    const size_t size = text.find(style_.parameter_name_end);
    if (size == text.npos || size > kMaxNameBytes) {
      return text.size() <= kMaxNameBytes ? more(in) : ReadStep::kNoCall;
    }
    parameter_ = text.substr(0, size);
    in.skip(size + style_.parameter_name_end.size());
    types_ = sink.tools().types(name_, parameter_);
    return go(State::kValueBegin);
  }

  ReadStep value_begin(ReplyInput& in, ReplySink& sink) {
    if (style_.says_string) {
      const Match text = in.match(R"( string="true">)"), json = in.match(R"( string="false">)");
      if (text == Match::kOpen || json == Match::kOpen) return ReadStep::kMore;
      if (text == Match::kNo && json == Match::kNo) return ReadStep::kNoCall;
      in.skip(in.rest().find('>') + 1);
      types_ = text == Match::kYes ? static_cast<uint8_t>(kTypeString) : types_ & ~kTypeString;
    } else if (!style_.value_begin.empty()) {
      if (!in.skip_blanks()) return more(in);
      const Match match = in.match(style_.value_begin);
      if (match == Match::kOpen) return ReadStep::kMore;
      if (match == Match::kNo) return ReadStep::kNoCall;
      in.skip(style_.value_begin.size());
    }
    begin(in, sink);
    sink.arguments((num_parameters_++ == 0 ? "{" : ", ") + json_string(parameter_) + ": ");
    streams_ = style_.quote_begin.empty() &&
               (types_ == kTypeString || (types_ == kTypeUndeclared && !reads_undeclared()));
    is_first_ = true;
    value_.clear();
    if (streams_) sink.arguments("\"");
    return go(State::kValue);
  }

  bool reads_undeclared() const { return style_.undeclared_is_json || style_.says_string; }

  // A string is sent as it comes. A value that may have another type waits for its end.
  ReadStep value(ReplyInput& in, ReplySink& sink) {
    if (is_first_ && style_.trims_newline) {
      if (in.empty() && !in.ended()) return ReadStep::kMore;
      if (in.rest().starts_with('\n')) in.skip(1);
    }
    is_first_ = false;
    const std::string_view text = in.rest();
    const auto [at, end] = find_end(text);
    size_t size = at;
    if (at == text.npos) {
      size_t open = 0;
      for (const std::string* mark : ends()) open = std::max(open, open_end(text, *mark));
      size = text.size() - open;
      // One newline before the end does not belong to the value.
      if (style_.trims_newline && size > 0 && text[size - 1] == '\n') --size;
    } else if (style_.trims_newline && size > 0 && text[size - 1] == '\n') {
      --size;
    }
    add_value(text.substr(0, size), sink);
    in.skip(at == text.npos ? size : at + end);
    in.commit();
    if (at == text.npos) return ReadStep::kMore;
    end_value(sink);
    return go(State::kParameters);
  }

  void add_value(std::string_view text, ReplySink& sink) {
    if (!streams_) {
      value_ += text;
      return;
    }
    std::string escaped;
    append_json_escaped(text, escaped);
    sink.arguments(escaped);
  }

  void end_value(ReplySink& sink) {
    if (streams_) return sink.arguments("\"");
    std::string_view text = value_;
    const bool is_quoted = !style_.quote_begin.empty() && text.starts_with(style_.quote_begin) &&
                           text.ends_with(style_.quote_end);
    if (is_quoted) {
      text.remove_prefix(style_.quote_begin.size());
      text.remove_suffix(style_.quote_end.size());
      return sink.arguments(value_as_json(text, kTypeString, false));
    }
    sink.arguments(value_as_json(text, types_, reads_undeclared()));
  }

  std::array<const std::string*, 3> ends() const {
    return {&style_.value_end, &style_.parameter_begin, &style_.call_end};
  }
  // Returns where the value ends and the size of its end mark, which is 0 when the model left the
  // mark out.
  std::pair<size_t, size_t> find_end(std::string_view text) const {
    std::pair<size_t, size_t> found{text.npos, 0};
    for (const std::string* mark : ends()) {
      const size_t at = text.find(*mark);
      if (at < found.first) found = {at, mark == &style_.value_end ? mark->size() : 0};
    }
    return found;
  }

  const Dialect& dialect_;
  const TaggedCallStyle& style_;
  State state_ = State::kOpening;
  bool had_call_ = false;
  // These belong to the current call and parameter.
  std::string name_;
  std::string parameter_;
  std::string value_;
  uint8_t types_ = kTypeUndeclared;
  size_t num_parameters_ = 0;
  bool is_begun_ = false;
  bool streams_ = false;
  bool is_first_ = false;  // no byte of the value has been read
};

}  // namespace

std::unique_ptr<CallReader> make_reader(const Dialect& dialect, const TaggedCallStyle& style) {
  return std::make_unique<TaggedCallReader>(dialect, style);
}

}  // namespace quire
