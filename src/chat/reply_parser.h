// ReplyParser parses a model's reply as it comes: reasoning, content and tool calls, in order. The
// same parser serves streamed and whole answers.
//
//   const ReplySyntax syntax({find_dialect("hermes"), find_reasoning_style("qwen3")}, tokens);
//   ReplyParser parser(syntax, {.tools = &types});
//   parser.feed(text, reply_tokens, events);   // for each piece
//   parser.finish(was_cut, events);
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
  const ToolTypes* tools = nullptr;   // of the request; null: not known
  bool reads_calls = true;            // otherwise calls are content
  bool shows_special_tokens = false;  // those that are no marks
  // The result of starts_in_reasoning(). nullopt: as the style says.
  std::optional<bool> starts_in_reasoning;
};

// However a reply is cut, its events say the same. Text that may be the beginning of a mark is held
// back until that is decided. So are blanks before the first content, which are dropped if a call
// follows. Text that looked like a call and is none becomes content, including its marks. One
// thread may use it.
class ReplyParser {
 public:
  // `syntax` and `options.tools` must outlive the parser.
  ReplyParser(const ReplySyntax& syntax, const ReplyOptions& options);
  ~ReplyParser();

  // `tokens` may come before their text, but never after it.
  void feed(std::string_view text, std::span<const ReplyToken> tokens,
            std::vector<ReplyEvent>& events);
  // Ends the reply. `was_cut` says that the model did not end it itself, for example because of the
  // token limit. A call that had not begun becomes content, or is dropped when the reply was cut.
  void finish(bool was_cut, std::vector<ReplyEvent>& events);

  // Returns how many tokens began inside the reasoning, without its marks. The number is exact
  // after every feed().
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
    size_t mark_bytes = 0;  // bytes to skip
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
  bool is_inside_ = false;     // in kStart: the reasoning has begun already
  bool drops_blanks_ = false;  // before the next content, as calls have just ended
  bool has_content_ = false;
  bool has_reasoning_ = false;  // some of it has come
  bool was_cut_ = false;
};

}  // namespace quire
