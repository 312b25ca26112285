#include "chat/reply_format.h"

#include <algorithm>

#include "chat/reply/reply_input.h"

namespace quire {
namespace {

ReasoningStyle encoded(const ReasoningStyle& style, const MarkTable& marks) {
  ReasoningStyle out = style;
  for (auto* list : {&out.begins, &out.ends, &out.implicit_ends, &out.dropped}) {
    for (std::string& pattern : *list) pattern = marks.encode(pattern);
  }
  return out;
}

const Dialect* harmony() { return find_dialect("openai"); }

std::string_view without_blanks_behind(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

// Returns whether `text` ends with one of `marks`; blanks at the end of either are ignored.
bool ends_with_any(std::string_view text, const std::vector<std::string>& marks) {
  return std::any_of(marks.begin(), marks.end(), [&](const std::string& mark) {
    return without_blanks_behind(text).ends_with(without_blanks_behind(mark));
  });
}

// Returns where the last of `marks` begins; npos: there is none.
size_t last_of(std::string_view text, const std::vector<std::string>& marks) {
  size_t last = text.npos;
  for (const std::string& mark : marks) {
    const size_t at = text.rfind(without_blanks_behind(mark));
    if (at != text.npos && (last == text.npos || at > last)) last = at;
  }
  return last;
}

}  // namespace

ReplyFormat ReplyFormat::without_calls() const {
  const bool is_harmony =
      dialect != nullptr && std::holds_alternative<HarmonyStyle>(dialect->style);
  return {is_harmony ? dialect : nullptr, reasoning};
}

Result<const Dialect*> parse_dialect_name(std::string_view name) {
  if (const Dialect* const dialect = find_dialect(name)) return dialect;
  std::string names;
  for (const Dialect& dialect : dialects()) names += (names.empty() ? "" : ", ") + dialect.name;
  return invalid_argument("tool-call-parser: expected one of {}; got {}", names, name);
}

Result<const ReasoningStyle*> parse_reasoning_name(std::string_view name) {
  if (const ReasoningStyle* const style = find_reasoning_style(name)) return style;
  std::string names;
  for (const ReasoningStyle& style : reasoning_styles()) {
    names += (names.empty() ? "" : ", ") + style.name;
  }
  return invalid_argument("reasoning-parser: expected one of {}; got {}", names, name);
}

ReplySyntax::ReplySyntax(const ReplyFormat& format, std::span<const MarkToken> tokens) {
  const auto is_style = [](const Dialect& dialect) {
    return std::holds_alternative<HarmonyStyle>(dialect.style);
  };
  is_harmony_ = (format.dialect != nullptr && is_style(*format.dialect)) ||
                (format.reasoning != nullptr && format.reasoning->is_harmony);
  const Dialect* const dialect = is_harmony_ ? harmony() : format.dialect;
  const ReasoningStyle* const reasoning = is_harmony_ ? nullptr : format.reasoning;
  std::vector<std::string> patterns;
  if (dialect != nullptr) patterns = patterns_of(*dialect);
  if (reasoning != nullptr) {
    const std::vector<std::string> more = patterns_of(*reasoning);
    patterns.insert(patterns.end(), more.begin(), more.end());
  }
  marks_ = MarkTable(tokens, patterns);
  if (dialect != nullptr) dialect_ = quire::encoded(*dialect, marks_);
  if (reasoning != nullptr) reasoning_ = encoded(*reasoning, marks_);
}

std::optional<bool> starts_in_reasoning(const ReasoningStyle& style, std::string_view prompt,
                                        std::string_view continued) {
  if (!continued.empty()) {
    const size_t begin = last_of(continued, style.begins), end = last_of(continued, style.ends);
    if (begin == continued.npos && end == continued.npos) return std::nullopt;
    return end == continued.npos || (begin != continued.npos && begin > end);
  }
  if (ends_with_any(prompt, style.ends)) return false;
  if (ends_with_any(prompt, style.begins)) return true;
  return std::nullopt;
}

}  // namespace quire
