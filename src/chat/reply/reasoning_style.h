// A ReasoningStyle describes as data how models separate their reasoning from their answer.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

struct ReasoningStyle {
  std::string name;  // as --reasoning-parser takes it
  std::vector<std::string> aliases = {};
  std::vector<std::string> begins;  // marks, one of which may begin the reply
  std::vector<std::string> ends;
  std::vector<std::string> implicit_ends = {};  // also end it, but are read again as calls
  std::vector<std::string> dropped = {};        // marks around the answer that are no content
  bool opened_by_template = false;  // without a sign in the prompt, the reply begins inside
  bool trims_newlines = false;      // around the reasoning and before the answer
  bool is_harmony = false;          // gpt-oss: the dialect `openai` finds the reasoning
};

// The styles live as long as the program.
std::span<const ReasoningStyle> reasoning_styles();
// Finds a style by its name or an alias; null: there is none.
const ReasoningStyle* find_reasoning_style(std::string_view name);
// Returns the style whose marks a chat template (its source) shows, or null when it shows none.
const ReasoningStyle* reasoning_style_of_template(std::string_view template_source);

std::vector<std::string> patterns_of(const ReasoningStyle& style);

}  // namespace quire
