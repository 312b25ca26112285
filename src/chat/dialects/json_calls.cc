// This reads calls that are JSON objects, alone or in a list: Hermes, Llama, older Mistral and many
// others.
#include <optional>
#include <utility>

#include "chat/dialects/call_reader.h"
#include "chat/reply/json_scanner.h"

namespace quire {
namespace {

// The JSON string at the beginning of `text`, with its quotes; empty while it is incomplete. Its
// content has at most kMaxNameBytes.
struct StringScan {
  Match match = Match::kNo;
  size_t size = 0;  // with quotes
};

StringScan scan_string(std::string_view text, size_t max_bytes) {
  if (text.empty()) return {Match::kOpen};
  if (text[0] != '"') return {Match::kNo};
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      return {i - 1 <= max_bytes ? Match::kYes : Match::kNo, i + 1};
    }
    if (i > max_bytes) return {Match::kNo};
  }
  return {Match::kOpen};
}

// Returns the text of a JSON string. \u escapes are not read, because no name needs them.
std::string unescaped(std::string_view quoted) {
  std::string out;
  constexpr std::string_view kNames = "nrtbf", kBytes = "\n\r\t\b\f";
  for (size_t i = 1; i + 1 < quoted.size(); ++i) {
    if (quoted[i] != '\\' || i + 2 >= quoted.size()) {
      out += quoted[i];
      continue;
    }
    const size_t at = kNames.find(quoted[++i]);
    out += at == kNames.npos ? quoted[i] : kBytes[at];
  }
  return out;
}

class JsonCallReader final : public CallReader {
 public:
  JsonCallReader(const Dialect& dialect, const JsonCallStyle& style)
      : dialect_(dialect), style_(style) {}

  ReadStep step(ReplyInput& in, ReplySink& sink) override {
    switch (state_) {
      case State::kOpening:
        return opening(in);
      case State::kBetween:
        return between(in);
      case State::kKey:
        return key(in);
      case State::kName:
        return name(in);
      case State::kArguments:
        return arguments(in, sink);
      case State::kObject:
        return object(in, sink);
      case State::kText:
        return text(in, sink);
      case State::kOther:
        return other(in);
      case State::kAfterValue:
        return after_value(in, sink);
    }
    return ReadStep::kNoCall;
  }

 private:
  enum class State : uint8_t {
    kOpening,
    kBetween,    // between calls
    kKey,        // of the call's object
    kName,       // value of the name
    kArguments,  // first byte of the arguments
    kObject,     // the rest of the arguments
    kText,       // arguments as JSON inside a string
    kOther,      // the value of another key
    kAfterValue,
  };

  ReadStep go(State state) {
    state_ = state;
    return ReadStep::kAgain;
  }
  ReadStep more(const ReplyInput& in) { return in.ended() ? ReadStep::kNoCall : ReadStep::kMore; }

  ReadStep opening(ReplyInput& in) {
    const ReadStep skipped = skip_opening(dialect_, in);
    if (skipped == ReadStep::kMore) return skipped;
    is_marked_ = skipped == ReadStep::kAgain;
    return go(State::kBetween);
  }

  // Reads blanks, list punctuation, further marks, or the end of the calls.
  ReadStep between(ReplyInput& in) {
    const auto over = [&] { return had_call_ ? ReadStep::kDone : ReadStep::kNoCall; };
    while (in.skip_blanks()) {
      bool may_come = false;
      for (const std::string& mark : {style_.close, style_.filler}) {
        if (mark.empty()) continue;
        const Match match = in.match(mark);
        may_come |= match == Match::kOpen;
        if (match != Match::kYes) continue;
        in.skip(mark.size());
        return mark == style_.close ? over() : ReadStep::kAgain;
      }
      if (may_come) return ReadStep::kMore;
      const char c = in.rest()[0];
      if (c == '{') {
        in.skip(1);
        begin_object();
        return go(State::kKey);
      }
      if (c == ',' || c == ';' || c == '[' || c == ']') {
        in.skip(1);
        continue;
      }
      const ReadStep reopened = skip_opening(dialect_, in);
      return reopened == ReadStep::kNoCall ? over() : reopened;
    }
    return in.ended() ? over() : ReadStep::kMore;
  }

  void begin_object() {
    name_.reset();
    pending_.clear();
    has_arguments_ = begun_ = has_member_ = false;
  }

  ReadStep key(ReplyInput& in) {
    if (!in.skip_blanks()) return more(in);
    if (in.rest()[0] == '}' && !has_member_) return ReadStep::kNoCall;
    const StringScan scan = scan_string(in.rest(), kMaxNameBytes);
    if (scan.match == Match::kOpen) return more(in);
    if (scan.match == Match::kNo) return ReadStep::kNoCall;
    const size_t colon = in.rest().find_first_not_of(kBlanks, scan.size);
    if (colon == std::string_view::npos) return more(in);
    if (in.rest()[colon] != ':') return ReadStep::kNoCall;
    const std::string text = unescaped(in.rest().substr(0, scan.size));
    in.skip(colon + 1);
    has_member_ = true;
    if (style_.name_is_key) {
      if (name_) return ReadStep::kNoCall;
      name_ = text;
      return go(State::kArguments);
    }
    if (text == "name" || text == "tool_name") return go(State::kName);
    if (text == "arguments" || text == "parameters") {
      return has_arguments_ ? ReadStep::kNoCall : go(State::kArguments);
    }
    if (text != "id" && text != "type" && text != "tool_call_id") return ReadStep::kNoCall;
    other_ = JsonScanner();
    return go(State::kOther);
  }

  ReadStep name(ReplyInput& in) {
    if (!in.skip_blanks()) return more(in);
    const StringScan scan = scan_string(in.rest(), kMaxNameBytes);
    if (scan.match == Match::kOpen) return more(in);
    if (scan.match == Match::kNo || scan.size == 2 || name_) return ReadStep::kNoCall;
    name_ = unescaped(in.rest().substr(0, scan.size));
    in.skip(scan.size);
    return go(State::kAfterValue);
  }

  ReadStep arguments(ReplyInput& in, ReplySink& sink) {
    if (!in.skip_blanks()) return more(in);
    if (in.rest()[0] == '"') return go(State::kText);
    if (in.rest().starts_with("n")) {
      const Match null = in.match("null");
      if (null == Match::kOpen) return ReadStep::kMore;
      if (null == Match::kNo) return ReadStep::kNoCall;
      in.skip(4);
      has_arguments_ = true;
      pending_ = "{}";
      return go(State::kAfterValue);
    }
    const Match begins = ArgumentsReader::begins(in.rest(), in.ended());
    if (begins == Match::kOpen) return more(in);
    if (begins == Match::kNo) return ReadStep::kNoCall;
    has_arguments_ = true;
    arguments_ = ArgumentsReader();
    if (name_) begin_call(in, sink);
    return go(State::kObject);
  }

  void begin_call(ReplyInput& in, ReplySink& sink) {
    in.commit();
    sink.begin_call(*name_);
    begun_ = true;
  }

  ReadStep object(ReplyInput& in, ReplySink& sink) {
    const ReadStep step = begun_ ? arguments_.step(in, sink) : arguments_.step(in, pending_);
    return step == ReadStep::kAgain ? go(State::kAfterValue) : step;
  }

  // Reads {"arguments": "{\"a\": 1}"}.
  ReadStep text(ReplyInput& in, ReplySink& sink) {
    constexpr size_t kMaxTextBytes = size_t{1} << 20;
    const StringScan scan = scan_string(in.rest(), kMaxTextBytes);
    if (scan.match == Match::kOpen) return more(in);
    if (scan.match == Match::kNo) return ReadStep::kNoCall;
    pending_ = unescaped(in.rest().substr(0, scan.size));
    if (pending_.empty()) pending_ = "{}";
    if (!pending_.starts_with('{') || !is_json(pending_)) return ReadStep::kNoCall;
    in.skip(scan.size);
    has_arguments_ = true;
    if (name_) begin_call(in, sink);
    return go(State::kAfterValue);
  }

  ReadStep other(ReplyInput& in) {
    std::string ignored;
    in.skip(other_.feed(in.rest(), ignored));
    if (in.ended()) other_.end();
    if (other_.state() == JsonScanner::State::kOpen) return more(in);
    if (other_.state() == JsonScanner::State::kFailed) return ReadStep::kNoCall;
    return go(State::kAfterValue);
  }

  ReadStep after_value(ReplyInput& in, ReplySink& sink) {
    if (!in.skip_blanks()) return more(in);
    const char c = in.rest()[0];
    if (c == ',') {
      in.skip(1);
      return go(State::kKey);
    }
    if (c != '}' || !name_) return ReadStep::kNoCall;
    // An object without a mark is only a call when its tool exists.
    if (!is_marked_ && !begun_ && !has_arguments_ && !sink.tools().empty() &&
        !sink.tools().has_tool(*name_)) {
      return ReadStep::kNoCall;
    }
    in.skip(1);
    if (!begun_) begin_call(in, sink);
    sink.arguments(has_arguments_ ? std::exchange(pending_, {}) : "{}");
    in.commit();
    sink.end_call(true);
    had_call_ = true;
    return go(State::kBetween);
  }

  const Dialect& dialect_;
  const JsonCallStyle& style_;
  State state_ = State::kOpening;
  bool is_marked_ = false;
  bool had_call_ = false;  // since the opening
  // These belong to the current object.
  std::optional<std::string> name_;
  std::string pending_;  // arguments before the name, or all at once
  bool has_arguments_ = false;
  bool begun_ = false;
  bool has_member_ = false;
  ArgumentsReader arguments_;
  JsonScanner other_;
};

}  // namespace

std::unique_ptr<CallReader> make_reader(const Dialect& dialect, const JsonCallStyle& style) {
  return std::make_unique<JsonCallReader>(dialect, style);
}

}  // namespace quire
