#include "chat/reply/reasoning_style.h"

#include <algorithm>

namespace quire {
namespace {

const std::vector<std::string> kThink = {"<think>"}, kEndThink = {"</think>"};

std::vector<ReasoningStyle> make_styles() {
  return {
      {.name = "qwen3",
       .aliases = {"mimo", "glm45", "glm47", "holo2", "deepseek_v3", "deepseek_v31", "deepseek_v32",
                   "deepseek_v4", "poolside_v1", "granite4"},
       .begins = kThink,
       .ends = kEndThink,
       .implicit_ends = {"<tool_call>"}},
      {.name = "deepseek_r1",
       .aliases = {"nemotron_v3", "step3"},
       .begins = kThink,
       .ends = kEndThink,
       .opened_by_template = true},
      {.name = "kimi_k2",
       .begins = kThink,
       .ends = kEndThink,
       .implicit_ends = {"<|tool_calls_section_begin|>"}},
      {.name = "minimax_m2", .begins = kThink, .ends = kEndThink, .opened_by_template = true},
      {.name = "step3p5",
       .begins = kThink,
       .ends = kEndThink,
       .opened_by_template = true,
       .trims_newlines = true},
      {.name = "olmo3", .begins = kThink, .ends = kEndThink, .opened_by_template = true},
      {.name = "seed_oss", .begins = {"<seed:think>"}, .ends = {"</seed:think>"}},
      {.name = "mistral", .begins = {"[THINK]"}, .ends = {"[/THINK]"}},
      {.name = "gemma4", .begins = {"<|channel>thought\n"}, .ends = {"<channel|>"}},
      {.name = "granite",
       .begins = {"Here is my thought process:", "Here's my thought process:"},
       .ends = {"Here is my response:", "Here's my response:"}},
      {.name = "hunyuan_a13b",
       .begins = {"<think>\n", "<think>"},
       .ends = {"\n</think>\n", "\n</think>", "</think>"},
       .dropped = {"<answer>\n", "\n</answer>", "<answer>", "</answer>"}},
      {.name = "hy_v3",
       .begins = {"<think:opensource>", "<think>"},
       .ends = {"</think:opensource>", "</think>"}},
      {.name = "ernie45",
       .begins = kThink,
       .ends = kEndThink,
       .dropped = {"<response>\n", "\n</response>", "<response>", "</response>"},
       .opened_by_template = true,
       .trims_newlines = true},
      {.name = "cohere_command4",
       .aliases = {"cohere_command3"},
       .begins = {"<|START_THINKING|>"},
       .ends = {"<|END_THINKING|>"},
       .dropped = {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"}},
      {.name = "apriel",
       .begins = {"Here are my reasoning steps:\n"},
       .ends = {"[BEGIN FINAL RESPONSE]"},
       .dropped = {"[END FINAL RESPONSE]"},
       .opened_by_template = true,
       .trims_newlines = true},
      {.name = "openai_gptoss",
       .aliases = {"openai"},
       .begins = {},
       .ends = {},
       .is_harmony = true},
  };
}

bool contains(std::string_view text, std::string_view what) { return text.find(what) != text.npos; }

}  // namespace

std::span<const ReasoningStyle> reasoning_styles() {
  static const std::vector<ReasoningStyle> kStyles = make_styles();
  return kStyles;
}

const ReasoningStyle* find_reasoning_style(std::string_view name) {
  for (const ReasoningStyle& style : reasoning_styles()) {
    const auto& aliases = style.aliases;
    if (style.name == name || std::find(aliases.begin(), aliases.end(), name) != aliases.end()) {
      return &style;
    }
  }
  return nullptr;
}

const ReasoningStyle* reasoning_style_of_template(std::string_view source) {
  constexpr std::pair<std::string_view, std::string_view> kSigns[] = {
      {"<|channel|>analysis", "openai_gptoss"},
      {"<|START_THINKING|>", "cohere_command4"},
      {"<|channel>thought", "gemma4"},
      {"[THINK]", "mistral"},
      {"<seed:think>", "seed_oss"},
      {"[BEGIN FINAL RESPONSE]", "apriel"},
      {"<|tool_calls_section_begin|>", "kimi_k2"},
      {"think:opensource", "hy_v3"},
      {"Here is my thought process:", "granite"},
      {"<answer>\\n", "hunyuan_a13b"},
      {"</think>", "qwen3"}};
  for (const auto& [sign, name] : kSigns) {
    if (contains(source, sign)) return find_reasoning_style(name);
  }
  return nullptr;
}

std::vector<std::string> patterns_of(const ReasoningStyle& style) {
  std::vector<std::string> all;
  for (const auto* list : {&style.begins, &style.ends, &style.implicit_ends, &style.dropped}) {
    all.insert(all.end(), list->begin(), list->end());
  }
  return all;
}

}  // namespace quire
