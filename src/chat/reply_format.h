// How one model's replies are taken apart: its dialect of tool calls, its way to mark reasoning,
// and the tokens that its vocabulary has for their marks.
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

// Points into the tables of dialects and styles; null: none.
struct ReplyFormat {
  const Dialect* dialect = nullptr;
  const ReasoningStyle* reasoning = nullptr;

  bool plain() const { return dialect == nullptr && reasoning == nullptr; }
  // Returns the same format where nothing is to be read as a call. gpt-oss' messages stay messages.
  ReplyFormat without_calls() const;
};

// By the names of --tool-call-parser and --reasoning-parser. kInvalidArgument lists the names.
Result<const Dialect*> parse_dialect_name(std::string_view name);
Result<const ReasoningStyle*> parse_reasoning_name(std::string_view name);

// A syntax is a format in one vocabulary. It does not change after it is made, so any thread may
// use it.
class ReplySyntax {
 public:
  ReplySyntax(const ReplyFormat& format, std::span<const MarkToken> tokens);

  const MarkTable& marks() const { return marks_; }
  // Null: the reply has no calls.
  const Dialect* dialect() const { return dialect_ ? &*dialect_ : nullptr; }
  // Null: the reply has no reasoning, or the dialect tells it.
  const ReasoningStyle* reasoning() const { return reasoning_ ? &*reasoning_ : nullptr; }
  // Whether replies are all messages in channels.
  bool is_harmony() const { return is_harmony_; }
  bool has_reasoning() const { return is_harmony_ || reasoning_.has_value(); }

 private:
  MarkTable marks_;
  std::optional<Dialect> dialect_;
  std::optional<ReasoningStyle> reasoning_;
  bool is_harmony_ = false;
};

// Returns whether a reply to `prompt` begins inside the reasoning, as the end of the prompt tells,
// or nullopt when the prompt does not tell. `continued` is the text of the final message that the
// reply goes on with.
std::optional<bool> starts_in_reasoning(const ReasoningStyle& style, std::string_view prompt,
                                        std::string_view continued = {});

}  // namespace quire
