// These types say how one model's replies are parsed: by its dialect of tool calls, its style of
// reasoning, and the tokens that its vocabulary has for their marks.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "chat/dialects/dialect.h"
#include "chat/reply/mark_table.h"
#include "chat/reply/reasoning_style.h"

namespace quire {

// The members point into the tables of dialects and styles; null: none.
struct ReplyFormat {
  const Dialect* dialect = nullptr;
  const ReasoningStyle* reasoning = nullptr;

  bool plain() const { return dialect == nullptr && reasoning == nullptr; }
  // Returns the same format without tool calls. The messages of gpt-oss are still parsed.
  ReplyFormat without_calls() const;
};

// Find a dialect or a style by the name in --tool-call-parser or --reasoning-parser.
// kInvalidArgument lists the names.
Result<const Dialect*> parse_dialect_name(std::string_view name);
Result<const ReasoningStyle*> parse_reasoning_name(std::string_view name);

// A ReplySyntax is a format for one vocabulary. It does not change after it is made, so any thread
// may use it.
class ReplySyntax {
 public:
  ReplySyntax(const ReplyFormat& format, std::span<const MarkToken> tokens);

  const MarkTable& marks() const { return marks_; }
  // Returns null when replies have no calls.
  const Dialect* dialect() const { return dialect_ ? &*dialect_ : nullptr; }
  // Returns null when replies have no reasoning, or when the dialect finds it.
  const ReasoningStyle* reasoning() const { return reasoning_ ? &*reasoning_ : nullptr; }
  // Returns whether replies consist of messages in channels.
  bool is_harmony() const { return is_harmony_; }
  bool has_reasoning() const { return is_harmony_ || reasoning_.has_value(); }

 private:
  MarkTable marks_;
  std::optional<Dialect> dialect_;
  std::optional<ReasoningStyle> reasoning_;
  bool is_harmony_ = false;
};

// Returns whether a reply to `prompt` begins inside the reasoning, as the end of the prompt shows,
// or nullopt when the prompt does not show it. `continued` is the text of the final message, if the
// reply continues it.
std::optional<bool> starts_in_reasoning(const ReasoningStyle& style, std::string_view prompt,
                                        std::string_view continued = {});

}  // namespace quire
