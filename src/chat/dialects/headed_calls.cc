// This reads calls whose function is named in a header before the arguments: DeepSeek, Kimi, newer
// Mistral.
#include <optional>

#include "chat/dialects/call_reader.h"

namespace quire {
namespace {

struct Header {
  std::string name;
  std::string id;
};

size_t blanks_at(std::string_view text) {
  return std::min(text.find_first_not_of(kBlanks), text.size());
}

// Matches the whole `text` with the form `pattern` (HeadedCallStyle::headers).
std::optional<Header> match_header(std::string_view pattern, std::string_view text) {
  Header header;
  while (!pattern.empty()) {
    if (pattern[0] == '{') {
      const size_t close = pattern.find('}');
      const std::string_view field = pattern.substr(1, close - 1);
      pattern.remove_prefix(close + 1);
      // A field ends before the text that follows it in the pattern.
      const std::string_view next = pattern.substr(0, 1);
      size_t size = 0;
      while (size < text.size() && (is_name_char(text[size]) || text[size] == ':') &&
             (next.empty() || text[size] != next[0])) {
        ++size;
      }
      if (size == 0) return std::nullopt;
      (field == "name" ? header.name : header.id) = text.substr(0, size);
      text.remove_prefix(size);
    } else if (is_blank(pattern[0])) {
      pattern.remove_prefix(blanks_at(pattern));
      text.remove_prefix(blanks_at(text));
    } else {
      if (text.empty() || text[0] != pattern[0]) return std::nullopt;
      pattern.remove_prefix(1);
      text.remove_prefix(1);
    }
  }
  if (blanks_at(text) != text.size()) return std::nullopt;
  // Kimi's header is the id functions.NAME:N, where the name may have dots.
  if (header.name.empty()) {
    const size_t begin =
        header.id.starts_with("functions.") ? std::string_view("functions.").size() : 0;
    header.name = header.id.substr(begin, header.id.rfind(':') - begin);
  }
  if (header.name.empty() || header.name.find(':') != header.name.npos) return std::nullopt;
  return header;
}

class HeadedCallReader final : public CallReader {
 public:
  HeadedCallReader(const Dialect& dialect, const HeadedCallStyle& style)
      : dialect_(dialect), style_(style) {}

  ReadStep step(ReplyInput& in, ReplySink& sink) override {
    if (json_) return json_->step(in, sink);
    switch (state_) {
      case State::kOpening:
        return opening(in);
      case State::kBetween:
        return between(in);
      case State::kHeader:
        return header(in, sink);
      case State::kArguments:
        return arguments(in, sink);
    }
    return ReadStep::kNoCall;
  }

 private:
  enum class State : uint8_t { kOpening, kBetween, kHeader, kArguments };
  static constexpr size_t kMaxHeaderBytes = 512;

  ReadStep go(State state) {
    state_ = state;
    return ReadStep::kAgain;
  }
  ReadStep over() const { return had_call_ ? ReadStep::kDone : ReadStep::kNoCall; }

  ReadStep opening(ReplyInput& in) {
    if (style_.json_too) {
      // A list of objects may follow the same mark.
      for (const std::string& mark : dialect_.openings) {
        if (in.match(mark) != Match::kYes) continue;
        const size_t next = in.rest().find_first_not_of(kBlanks, mark.size());
        if (next == std::string_view::npos) {
          return in.ended() ? ReadStep::kNoCall : ReadStep::kMore;
        }
        if (in.rest()[next] != '[' && in.rest()[next] != '{') break;
        static const JsonCallStyle kList;
        json_ = make_reader(dialect_, kList);
        return ReadStep::kAgain;
      }
    }
    const ReadStep skipped = skip_opening(dialect_, in);
    if (skipped != ReadStep::kAgain) return skipped;
    return go(style_.call_begin.empty() ? State::kHeader : State::kBetween);
  }

  // Reads what is between calls: a separator, the beginning of the next call, or the end of all
  // calls.
  ReadStep between(ReplyInput& in) {
    while (in.skip_blanks()) {
      bool may_come = false, skipped = false;
      const auto take = [&](const std::string& mark) {
        const Match match = mark.empty() ? Match::kNo : in.match(mark);
        may_come |= match == Match::kOpen;
        if (match == Match::kYes) in.skip(mark.size());
        return match == Match::kYes;
      };
      if (take(style_.close)) return over();
      if (take(style_.call_begin)) return go(State::kHeader);
      for (const std::string& filler : style_.fillers) skipped = skipped || take(filler);
      if (skipped) continue;
      if (may_come) return ReadStep::kMore;
      const ReadStep reopened = skip_opening(dialect_, in);
      if (reopened == ReadStep::kMore) return reopened;
      if (reopened == ReadStep::kNoCall) return over();
      if (style_.call_begin.empty()) return go(State::kHeader);
    }
    return in.ended() ? over() : ReadStep::kMore;
  }

  ReadStep header(ReplyInput& in, ReplySink& sink) {
    const size_t size = in.rest().find('{');
    if (size == std::string_view::npos || size > kMaxHeaderBytes) {
      const bool may_come = in.rest().size() <= kMaxHeaderBytes && !in.ended();
      return may_come ? ReadStep::kMore : ReadStep::kNoCall;
    }
    std::optional<Header> found;
    for (const std::string& pattern : style_.headers) {
      found = match_header(pattern, in.rest().substr(0, size));
      if (found) break;
    }
    if (!found) return ReadStep::kNoCall;
    const Match begins = ArgumentsReader::begins(in.rest().substr(size), in.ended());
    if (begins == Match::kOpen) return ReadStep::kMore;
    if (begins == Match::kNo) return ReadStep::kNoCall;
    in.skip(size);
    in.commit();
    sink.begin_call(found->name, found->id);
    arguments_ = ArgumentsReader();
    return go(State::kArguments);
  }
  ReadStep arguments(ReplyInput& in, ReplySink& sink) {
    const ReadStep step = arguments_.step(in, sink);
    if (step != ReadStep::kAgain) return step;
    sink.end_call(true);
    had_call_ = true;
    return go(State::kBetween);
  }

  const Dialect& dialect_;
  const HeadedCallStyle& style_;
  State state_ = State::kOpening;
  bool had_call_ = false;
  ArgumentsReader arguments_;
  std::unique_ptr<CallReader> json_;
};

}  // namespace

std::unique_ptr<CallReader> make_reader(const Dialect& dialect, const HeadedCallStyle& style) {
  return std::make_unique<HeadedCallReader>(dialect, style);
}

}  // namespace quire
