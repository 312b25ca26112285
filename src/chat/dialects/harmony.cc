// This reads gpt-oss's replies:
// <|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>commentary to=functions.f
// <|constrain|>json<|message|>{…}<|call|>. A reply begins inside a header.
#include <array>

#include "chat/dialects/call_reader.h"

namespace quire {
namespace {

class HarmonyReader final : public CallReader {
 public:
  explicit HarmonyReader(const HarmonyStyle& marks) : marks_(marks) {}

  ReadStep step(ReplyInput& in, ReplySink& sink) override {
    switch (state_) {
      case State::kHeader:
        return header(in, sink);
      case State::kArguments:
        return arguments(in, sink);
      case State::kReasoning:
      case State::kContent:
      case State::kAfterCall:
        return body(in, sink);
    }
    return ReadStep::kNoCall;
  }

 private:
  enum class State : uint8_t {
    kHeader,
    kReasoning,
    kContent,
    kArguments,
    kAfterCall,  // until the end of its message
  };
  static constexpr size_t kMaxHeaderBytes = 512;

  ReadStep go(State state) {
    state_ = state;
    return ReadStep::kAgain;
  }

  // Reads the header up to <|message|>. A reply that does not begin with a header is plain content.
  ReadStep header(ReplyInput& in, ReplySink& sink) {
    const std::string_view text = in.rest();
    if (text.empty()) return ReadStep::kMore;
    if (!begins_header(in)) return go(State::kContent);
    const size_t size = text.find(marks_.message);
    if (size == text.npos) {
      const bool may_come = text.size() <= kMaxHeaderBytes && !in.ended();
      if (may_come) return ReadStep::kMore;
      // A header that never ends has no content.
      in.skip(text.size());
      if (!in.ended()) return go(State::kContent);
      in.commit();
      return ReadStep::kMore;
    }
    const std::string recipient = field_behind(text.substr(0, size), "to=");
    const std::string channel = field_behind(text.substr(0, size), marks_.channel);
    function_ = recipient.starts_with("functions.") ? recipient.substr(10) : std::string();
    if (!function_.empty() && sink.reads_calls()) {
      const Match begins =
          ArgumentsReader::begins(text.substr(size + marks_.message.size()), in.ended());
      if (begins == Match::kOpen) return ReadStep::kMore;
      in.skip(size + marks_.message.size());
      in.commit();
      if (begins == Match::kNo) return go(State::kContent);
      sink.begin_call(function_);
      arguments_ = ArgumentsReader();
      return go(State::kArguments);
    }
    in.skip(size + marks_.message.size());
    in.commit();
    // Calls of built-in tools are in the analysis channel, too.
    return go(channel == "analysis" ? State::kReasoning : State::kContent);
  }

  // The role may come first: the reply begins inside a header, and later headers begin with the
  // role.
  bool begins_header(const ReplyInput& in) const {
    for (const std::string& mark :
         {marks_.channel, marks_.start, marks_.message, marks_.constrain, std::string(" to="),
          std::string("to="), std::string("assistant")}) {
      if (in.match(mark) != Match::kNo) return true;
    }
    return false;
  }

  // Returns the word after `key`.
  static std::string field_behind(std::string_view header, std::string_view key) {
    const size_t at = header.find(key);
    if (at == header.npos) return {};
    header.remove_prefix(at + key.size());
    size_t size = 0;
    while (size < header.size() && is_name_char(header[size])) ++size;
    return std::string(header.substr(0, size));
  }

  ReadStep arguments(ReplyInput& in, ReplySink& sink) {
    const ReadStep step = arguments_.step(in, sink);
    if (step == ReadStep::kAgain) {
      sink.end_call(true);
      return go(State::kAfterCall);
    }
    if (step == ReadStep::kNoCall) {
      sink.end_call(false);
      return go(State::kContent);
    }
    return step;
  }

  ReadStep body(ReplyInput& in, ReplySink& sink) {
    const std::array ends = {&marks_.end, &marks_.call, &marks_.end_of_reply, &marks_.start,
                             &marks_.channel};
    const std::string_view text = in.rest();
    size_t at = text.npos, mark_size = 0, open = 0;
    for (const std::string* mark : ends) {
      const size_t found = text.find(*mark);
      if (found < at) {
        at = found;
        const bool begins_next = mark == &marks_.start || mark == &marks_.channel;
        mark_size = begins_next ? 0 : mark->size();
      }
      open = std::max(open, open_end(text, *mark));
    }
    const size_t size = at != text.npos ? at : in.ended() ? text.size() : text.size() - open;
    in.skip(size);
    if (state_ == State::kReasoning) sink.reasoning(in);
    if (state_ == State::kContent) sink.content(in);
    in.skip(mark_size);
    in.commit();
    return at == text.npos ? ReadStep::kMore : go(State::kHeader);
  }

  const HarmonyStyle& marks_;
  State state_ = State::kHeader;
  std::string function_;
  ArgumentsReader arguments_;
};

}  // namespace

std::unique_ptr<CallReader> make_reader(const Dialect&, const HarmonyStyle& style) {
  return std::make_unique<HarmonyReader>(style);
}

}  // namespace quire
