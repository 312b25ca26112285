// This reads Gemma's calls: call:f{a:<|"|>x<|"|>,b:[1,true]}, with bare keys and strings between
// quote tokens.
#include <optional>
#include <utility>

#include "chat/dialects/call_reader.h"
#include "chat/reply/json_scanner.h"
#include "chat/reply/python_literal.h"

namespace quire {
namespace {

class GemmaCallReader final : public CallReader {
 public:
  GemmaCallReader(const Dialect& dialect, const GemmaCallStyle& style)
      : dialect_(dialect), style_(style) {}

  ReadStep step(ReplyInput& in, ReplySink& sink) override {
    switch (state_) {
      case State::kOpening:
        return opening(in);
      case State::kName:
        return name(in, sink);
      case State::kKey:
        return key(in, sink);
      case State::kItem:
      case State::kValue:
        return value(in, sink);
      case State::kString:
        return string(in, sink);
      case State::kAfterValue:
        return after_value(in, sink);
      case State::kClose:
        return close(in);
    }
    return ReadStep::kNoCall;
  }

 private:
  enum class State : uint8_t {
    kOpening,
    kName,
    kKey,   // or the end of the object
    kItem,  // or the end of the list
    kValue,
    kString,  // inside its quotes
    kAfterValue,
    kClose,  // the mark after the call
  };
  static constexpr size_t kMaxDepth = 128;

  ReadStep go(State state) {
    state_ = state;
    return ReadStep::kAgain;
  }
  ReadStep more(const ReplyInput& in) { return in.ended() ? ReadStep::kNoCall : ReadStep::kMore; }

  ReadStep opening(ReplyInput& in) {
    const ReadStep skipped = skip_opening(dialect_, in);
    return skipped == ReadStep::kAgain ? go(State::kName) : skipped;
  }

  ReadStep name(ReplyInput& in, ReplySink& sink) {
    if (!in.skip_blanks()) return more(in);
    const Match begin = in.match(style_.call_begin);
    if (begin == Match::kOpen) return ReadStep::kMore;
    if (begin == Match::kNo) return ReadStep::kNoCall;
    const std::string_view text = in.rest().substr(style_.call_begin.size());
    size_t size = 0;
    while (size < text.size() && size <= kMaxNameBytes && is_name_char(text[size])) ++size;
    if (size == text.size() && size <= kMaxNameBytes) return more(in);
    if (size == 0 || size > kMaxNameBytes || text[size] != '{') return ReadStep::kNoCall;
    name_ = text.substr(0, size);
    in.skip(style_.call_begin.size() + size + 1);
    in.commit();
    sink.begin_call(name_);
    sink.arguments("{");
    nesting_ = "{";
    has_item_ = false;
    return go(State::kKey);
  }

  ReadStep key(ReplyInput& in, ReplySink& sink) {
    if (!in.skip_blanks()) return more(in);
    if (in.rest()[0] == '}') return close_bracket(in, sink);
    const size_t size = in.rest().find(':');
    if (size == std::string_view::npos || size > kMaxNameBytes) {
      return in.rest().size() <= kMaxNameBytes ? more(in) : ReadStep::kNoCall;
    }
    std::string_view key = in.rest().substr(0, size);
    const std::string& quote = style_.quote;
    if (key.size() >= 2 * quote.size() && key.starts_with(quote) && key.ends_with(quote)) {
      key = key.substr(quote.size(), key.size() - 2 * quote.size());
    }
    if (nesting_.size() == 1) types_ = sink.tools().types(name_, key);
    sink.arguments((has_item_ ? ", " : "") + json_string(key) + ": ");
    in.skip(size + 1);
    in.commit();
    return go(State::kValue);
  }

  ReadStep value(ReplyInput& in, ReplySink& sink) {
    if (!in.skip_blanks()) return more(in);
    const char c = in.rest()[0];
    if (state_ == State::kItem && c == ']') return close_bracket(in, sink);
    const Match quote = in.match(style_.quote);
    if (quote == Match::kOpen) return ReadStep::kMore;
    std::string before = state_ == State::kItem && has_item_ ? ", " : "";
    if (quote == Match::kYes) {
      in.skip(style_.quote.size());
      in.commit();
      streams_ = !style_.quotes_all || types_ == kTypeString || types_ == kTypeUndeclared;
      text_.clear();
      sink.arguments(before + (streams_ ? "\"" : ""));
      return go(State::kString);
    }
    if (c == '{' || c == '[') {
      if (nesting_.size() == kMaxDepth) return ReadStep::kNoCall;
      nesting_ += c;
      has_item_ = false;
      in.skip(1);
      in.commit();
      sink.arguments(before + c);
      return go(c == '{' ? State::kKey : State::kItem);
    }
    return word(in, sink, std::move(before));
  }

  // Reads a number, true, false or null. Any other word is a string without quotes.
  ReadStep word(ReplyInput& in, ReplySink& sink, std::string before) {
    const size_t size = in.rest().find_first_of(",]}");
    if (size == std::string_view::npos || size > kMaxNameBytes) {
      return in.rest().size() <= kMaxNameBytes ? more(in) : ReadStep::kNoCall;
    }
    const std::string_view text = in.rest().substr(0, size);
    if (text.empty()) return ReadStep::kNoCall;
    const std::optional<std::string> literal = python_as_json(text);
    sink.arguments(before + (literal ? *literal : json_string(text)));
    in.skip(size);
    in.commit();
    has_item_ = true;
    return go(State::kAfterValue);
  }

  ReadStep string(ReplyInput& in, ReplySink& sink) {
    const std::string_view text = in.rest();
    const size_t at = text.find(style_.quote);
    const size_t size = at != text.npos ? at : text.size() - open_end(text, style_.quote);
    if (streams_) {
      std::string escaped;
      append_json_escaped(text.substr(0, size), escaped);
      sink.arguments(escaped);
    } else {
      text_ += text.substr(0, size);
    }
    in.skip(at != text.npos ? at + style_.quote.size() : size);
    in.commit();
    if (at == text.npos) return ReadStep::kMore;
    sink.arguments(streams_ ? "\"" : value_as_json(text_, types_, true));
    has_item_ = true;
    return go(State::kAfterValue);
  }

  ReadStep after_value(ReplyInput& in, ReplySink& sink) {
    if (!in.skip_blanks()) return more(in);
    const char c = in.rest()[0];
    if (c == '}' || c == ']') return close_bracket(in, sink);
    if (c != ',') return ReadStep::kNoCall;
    in.skip(1);
    in.commit();
    return go(nesting_.back() == '{' ? State::kKey : State::kItem);
  }

  ReadStep close_bracket(ReplyInput& in, ReplySink& sink) {
    const char c = in.rest()[0];
    if ((nesting_.back() == '{') != (c == '}')) return ReadStep::kNoCall;
    nesting_.pop_back();
    sink.arguments({&c, 1});
    in.skip(1);
    in.commit();
    has_item_ = true;
    if (!nesting_.empty()) return go(State::kAfterValue);
    sink.end_call(true);
    return go(State::kClose);
  }

  ReadStep close(ReplyInput& in) {
    if (!in.skip_blanks() && !in.ended()) return ReadStep::kMore;
    const Match match = in.match(style_.close);
    if (match == Match::kOpen) return ReadStep::kMore;
    if (match == Match::kYes) in.skip(style_.close.size());
    return ReadStep::kDone;
  }

  const Dialect& dialect_;
  const GemmaCallStyle& style_;
  State state_ = State::kOpening;
  std::string name_;
  std::string nesting_;              // '{' and '['
  bool has_item_ = false;            // in the innermost bracket
  uint8_t types_ = kTypeUndeclared;  // of the parameter
  bool streams_ = false;
  std::string text_;  // a quoted value that is no string
};

}  // namespace

std::unique_ptr<CallReader> make_reader(const Dialect& dialect, const GemmaCallStyle& style) {
  return std::make_unique<GemmaCallReader>(dialect, style);
}

}  // namespace quire
