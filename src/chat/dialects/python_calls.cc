// This reads calls in Python's syntax: [f(a="x"), g()], of Llama 3.2 and 4, OLMo 3, LFM2, Gemma 3.
#include <utility>

#include "chat/dialects/call_reader.h"
#include "chat/reply/json_scanner.h"
#include "chat/reply/python_literal.h"

namespace quire {
namespace {

class PythonCallReader final : public CallReader {
 public:
  PythonCallReader(const Dialect& dialect, const PythonCallStyle& style)
      : dialect_(dialect), style_(style) {}

  ReadStep step(ReplyInput& in, ReplySink& sink) override {
    switch (state_) {
      case State::kOpening:
        return opening(in);
      case State::kBetween:
        return between(in);
      case State::kName:
        return name(in);
      case State::kKey:
        return key(in, sink);
      case State::kValue:
        return value(in, sink);
      case State::kAfterValue:
        return after_value(in, sink);
    }
    return ReadStep::kNoCall;
  }

 private:
  enum class State : uint8_t { kOpening, kBetween, kName, kKey, kValue, kAfterValue };

  ReadStep go(State state) {
    state_ = state;
    return ReadStep::kAgain;
  }
  ReadStep more(const ReplyInput& in) { return in.ended() ? ReadStep::kNoCall : ReadStep::kMore; }
  ReadStep over() const { return had_call_ ? ReadStep::kDone : ReadStep::kNoCall; }

  ReadStep opening(ReplyInput& in) {
    const ReadStep skipped = skip_opening(dialect_, in);
    return skipped == ReadStep::kMore ? skipped : go(State::kBetween);
  }

  ReadStep between(ReplyInput& in) {
    while (in.skip_blanks()) {
      const Match close = style_.close.empty() ? Match::kNo : in.match(style_.close);
      if (close == Match::kOpen) return ReadStep::kMore;
      if (close == Match::kYes) {
        in.skip(style_.close.size());
        return over();
      }
      const char c = in.rest()[0];
      if (c == ']' && style_.close.empty()) {
        in.skip(1);
        return over();
      }
      if (c == '[' || c == ']' || c == ',') {
        in.skip(1);
      } else if (is_name_char(c)) {
        return go(State::kName);
      } else {
        return over();
      }
    }
    return in.ended() ? over() : ReadStep::kMore;
  }

  // Returns the size of a name of letters, digits, '_', '.' and '-' before its bracket.
  size_t name_size(std::string_view text) const {
    size_t size = 0;
    while (size < text.size() && size <= kMaxNameBytes && is_name_char(text[size])) ++size;
    return size;
  }

  ReadStep name(ReplyInput& in) {
    const size_t size = name_size(in.rest());
    if (size > kMaxNameBytes) return ReadStep::kNoCall;
    if (size == in.rest().size()) return more(in);
    const char first = in.rest()[0];
    const bool is_word = first < '0' || first > '9';
    if (in.rest()[size] != '(' || !is_word) return ReadStep::kNoCall;
    name_ = in.rest().substr(0, size);
    in.skip(size + 1);
    num_arguments_ = 0;
    return go(State::kKey);
  }

  // Reads a keyword or the end of the call.
  ReadStep key(ReplyInput& in, ReplySink& sink) {
    if (!in.skip_blanks()) return more(in);
    if (in.rest()[0] == ')') return end_call(in, sink);
    const size_t size = name_size(in.rest());
    const size_t next = in.rest().find_first_not_of(kBlanks, size);
    if (size > kMaxNameBytes) return ReadStep::kNoCall;
    if (next == std::string_view::npos) return more(in);
    if (size == 0 || in.rest()[next] != '=') return ReadStep::kNoCall;
    const std::string key(in.rest().substr(0, size));
    in.skip(next + 1);
    if (num_arguments_ == 0) {
      in.commit();
      sink.begin_call(name_);
    }
    sink.arguments((num_arguments_++ == 0 ? "{" : ", ") + json_string(key) + ": ");
    value_ = PythonScanner();
    return go(State::kValue);
  }

  ReadStep value(ReplyInput& in, ReplySink& sink) {
    std::string out;
    in.skip(value_.feed(in.rest(), out));
    in.commit();
    sink.arguments(out);
    if (value_.state() == PythonScanner::State::kOpen) return ReadStep::kMore;
    if (value_.state() == PythonScanner::State::kFailed) return ReadStep::kNoCall;
    return go(State::kAfterValue);
  }

  ReadStep after_value(ReplyInput& in, ReplySink& sink) {
    if (!in.skip_blanks()) return more(in);
    if (in.rest()[0] == ')') return end_call(in, sink);
    if (in.rest()[0] != ',') return ReadStep::kNoCall;
    in.skip(1);
    return go(State::kKey);
  }

  ReadStep end_call(ReplyInput& in, ReplySink& sink) {
    in.skip(1);
    in.commit();
    if (num_arguments_ == 0) sink.begin_call(name_);
    sink.arguments(num_arguments_ == 0 ? "{}" : "}");
    sink.end_call(true);
    had_call_ = true;
    return go(State::kBetween);
  }

  const Dialect& dialect_;
  const PythonCallStyle& style_;
  State state_ = State::kOpening;
  bool had_call_ = false;
  std::string name_;
  size_t num_arguments_ = 0;
  PythonScanner value_;
};

}  // namespace

std::unique_ptr<CallReader> make_reader(const Dialect& dialect, const PythonCallStyle& style) {
  return std::make_unique<PythonCallReader>(dialect, style);
}

}  // namespace quire
