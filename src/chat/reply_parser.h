// Takes a model's reply apart as it comes: reasoning, content and tool calls, in order. One parser
// serves streamed and whole answers.
//
//   const ReplySyntax syntax({find_dialect("hermes"), find_reasoning_style("qwen3")},
//   added_tokens); ReplyParser parser(syntax, {.tools = &types}); parser.feed(text, tokens,
//   events);   // for each piece parser.finish(was_cut, events);
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chat/dialects/call_reader.h"
#include "chat/reply/reply_encoder.h"
#include "chat/reply/reply_input.h"
#include "chat/reply/reply_sink.h"
#include "chat/reply_format.h"

namespace quire {

struct ReplyOptions {
  const ToolTypes* tools = nullptr;   // of the request; null: nothing is known of them
  bool reads_calls = true;            // otherwise calls are content
  bool shows_special_tokens = false;  // that are no marks
  // From the prompt (starts_in_reasoning); nothing: as the style says.
  std::optional<bool> starts_in_reasoning;
};

// However a reply is cut, its events say the same. Text that may be the beginning of a mark is held
// back until it is decided, and so are blanks before the first content, which a call makes
// disappear. What looked like a call and is none is content, marks included. One thread may use it.
class ReplyParser {
 public:
  // `syntax` and `options.tools` outlive the parser.
  ReplyParser(const ReplySyntax& syntax, const ReplyOptions& options);
  ~ReplyParser();

  // `tokens` may come before their text, never after it.
  void feed(std::string_view text, std::span<const ReplyToken> tokens,
            std::vector<ReplyEvent>& events);
  // Ends the reply; `was_cut` says that there was no more room. A call that had not begun becomes
  // content then, or nothing when the reply was cut.
  void finish(bool was_cut, std::vector<ReplyEvent>& events);

  // Returns how many tokens began inside the reasoning, without its marks. It is exact after every
  // piece.
  int64_t num_reasoning_tokens() const { return sink_.num_reasoning_tokens(); }

 private:
  enum class State : uint8_t {
    kStart,  // before the reasoning, if there is one
    kReasoning,
    kAnswer,  // before the first byte of the answer
    kContent,
    kCalls,
  };
  struct Found {
    size_t at = std::string_view::npos;
    size_t mark_bytes = 0;  // to skip
    bool is_call = false;
  };

  void run();
  bool step();
  bool start();
  bool reasoning();
  bool answer();
  bool content();
  bool calls();
  void begin_calls();
  bool pass(size_t num_bytes, bool is_reasoning);
  void abandon_call(bool was_cut);
  Found find_content_mark(size_t& open_bytes) const;

  const ReplyOptions options_;
  const Dialect* const dialect_;  // null: no calls are read
  const ReasoningStyle* const style_;
  ReplyEncoder encoder_;
  ReplyInput input_;
  ReplySink sink_;
  std::unique_ptr<CallReader> reader_;
  State state_ = State::kStart;
  bool is_inside_ = false;     // at the start: the reasoning has begun
  bool drops_blanks_ = false;  // before the next content: calls have just ended
  bool has_content_ = false;
  bool has_reasoning_ = false;  // a byte of it
  bool was_cut_ = false;
};

}  // namespace quire
