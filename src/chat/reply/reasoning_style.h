// How models set their reasoning apart from their answer, as data.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

struct ReasoningStyle {
  std::string name;  // as --reasoning-parser takes it
  std::vector<std::string> aliases = {};
  std::vector<std::string> begins;  // any of these marks, at the beginning of the reply
  std::vector<std::string> ends;
  std::vector<std::string> implicit_ends = {};  // end it too, and are read again: calls
  std::vector<std::string> dropped = {};        // marks around the answer that are no content
  bool opened_by_template = false;  // where the prompt does not tell: the reply begins inside
  bool trims_newlines = false;      // around the reasoning and at the beginning of the answer
  bool is_harmony = false;          // gpt-oss: the dialect `openai` tells reasoning, too
};

// Lives as long as the program.
std::span<const ReasoningStyle> reasoning_styles();
// By name or alias; null: there is none.
const ReasoningStyle* find_reasoning_style(std::string_view name);
// Returns the style whose marks a chat template (its source) shows, or null when it shows none.
const ReasoningStyle* reasoning_style_of_template(std::string_view template_source);

std::vector<std::string> patterns_of(const ReasoningStyle& style);

}  // namespace quire
