#include "chat/dialects/dialect_table.h"

#include <fmt/format.h>

#include <iterator>
#include <string_view>
#include <utility>

namespace quire {
namespace {

// Makes a dialect of blocks {"name": …, "arguments": …}, one call between each pair of marks.
Dialect json_blocks(std::string name, std::vector<std::string> aliases, std::string open,
                    std::string close, std::string blank) {
  Dialect dialect{.name = std::move(name),
                  .aliases = std::move(aliases),
                  .style = JsonCallStyle{.close = close}};
  dialect.layout = {.call_begin = open + blank + R"({"name": "{name}", "arguments": )",
                    .call_end = "}" + blank + close,
                    .separator = "\n"};
  dialect.openings = {std::move(open)};
  return dialect;
}

// Makes a dialect of a list of such objects after one mark.
Dialect json_list(std::string name, std::vector<std::string> aliases, std::string open,
                  std::string close) {
  Dialect dialect{.name = std::move(name),
                  .aliases = std::move(aliases),
                  .style = JsonCallStyle{.close = close}};
  dialect.layout = {.begin = open + "[",
                    .call_begin = R"({"name": "{name}", "arguments": )",
                    .call_end = "}",
                    .separator = ", ",
                    .end = "]" + close};
  if (!open.empty()) dialect.openings = {std::move(open)};
  return dialect;
}

std::vector<Dialect> json_dialects() {
  std::vector<Dialect> all;
  all.push_back(
      json_blocks("hermes", {"granite4", "ernie45", "qwen2"}, "<tool_call>", "</tool_call>", "\n"));
  all.push_back({.name = "llama3_json",
                 .aliases = {"llama4_json"},
                 .openings = {"<|python_tag|>"},
                 .begins_reply = "{",
                 .style = JsonCallStyle{},
                 .layout = {.call_begin = R"({"name": "{name}", "parameters": )",
                            .call_end = "}",
                            .separator = "; "}});
  all.push_back(json_list("granite", {}, "<|tool_call|>", ""));
  all.back().openings.push_back("<tool_call>");
  all.push_back(json_blocks("granite-20b-fc", {}, "<function_call>", "", " "));
  all.back().layout.call_end = "}";
  all.push_back(json_blocks("internlm", {}, "<|action_start|><|plugin|>", "<|action_end|>", "\n"));
  all.back().layout.call_begin =
      "<|action_start|><|plugin|>\n{\"name\": \"{name}\", \"parameters\": ";
  all.back().layout.call_end = "}<|action_end|>";
  all.push_back(json_list("phi4_mini_json", {"phi4_mini"}, "functools", ""));
  all.back().openings.push_back("<|tool_call|>");
  std::get<JsonCallStyle>(all.back().style).close = "<|/tool_call|>";
  all.push_back(json_list("hunyuan_a13b", {"jamba", "apriel"}, "<tool_calls>", "</tool_calls>"));
  all.push_back(json_list("minimax", {}, "<tool_calls>", "</tool_calls>"));
  all.back().layout = {.begin = "<tool_calls>\n",
                       .call_begin = R"({"name": "{name}", "arguments": )",
                       .call_end = "}",
                       .separator = "\n",
                       .end = "\n</tool_calls>"};
  all.push_back(json_list("nemotron_nano_v2", {}, "<TOOLCALL>", "</TOOLCALL>"));
  all.push_back(json_list("xlam", {}, "", ""));
  all.back().openings = {"```json", "[TOOL_CALLS]", "<tool_call>"};
  all.back().begins_reply = "[";
  std::get<JsonCallStyle>(all.back().style).close = "```";
  all.push_back(json_blocks("longcat", {}, "<longcat_tool_call>", "</longcat_tool_call>", "\n"));
  all.push_back(json_blocks("gigachat3", {}, "<|function_call|>", "", ""));
  all.back().openings.push_back("function call<|role_sep|>");
  all.push_back(json_list("apertus", {}, "<|tools_prefix|>", "<|tools_suffix|>"));
  all.back().style = JsonCallStyle{.close = "<|tools_suffix|>", .name_is_key = true};
  all.back().layout.call_begin = R"({"{name}": )";
  all.push_back(json_list("cohere_command4", {"cohere_command3", "cohere"}, "<|START_ACTION|>",
                          "<|END_ACTION|>"));
  all.back().layout.call_begin = R"({"tool_call_id": "0", "tool_name": "{name}", "parameters": )";
  return all;
}

std::vector<Dialect> headed_dialects() {
  std::vector<Dialect> all;
  all.push_back({.name = "mistral",
                 .openings = {"[TOOL_CALLS]"},
                 .style = HeadedCallStyle{.headers = {"{name}[CALL_ID]{id}[ARGS] ", "{name}[ARGS] ",
                                                      "{name} "},
                                          .json_too = true},
                 .layout = {.call_begin = "[TOOL_CALLS]{name}[ARGS]"},
                 .ids = CallIds::kMistral});
  all.push_back({.name = "mistral_list",
                 .openings = {"[TOOL_CALLS]"},
                 .style = HeadedCallStyle{.headers = {"{name} "}, .json_too = true},
                 .layout = {.begin = "[TOOL_CALLS][",
                            .call_begin = R"({"name": "{name}", "arguments": )",
                            .call_end = "}",
                            .separator = ", ",
                            .end = "]"},
                 .ids = CallIds::kMistral});
  all.push_back(
      {.name = "deepseek_v3",
       .openings = {"<｜tool▁calls▁begin｜>"},
       .style = HeadedCallStyle{.headers = {"function<｜tool▁sep｜>{name} ```json ",
                                            "function<｜tool▁sep｜>{name} "},
                                .call_begin = "<｜tool▁call▁begin｜>",
                                .fillers = {"```", "<｜tool▁call▁end｜>"},
                                .close = "<｜tool▁calls▁end｜>"},
       .layout = {.begin = "<｜tool▁calls▁begin｜>",
                  .call_begin = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n",
                  .call_end = "\n```<｜tool▁call▁end｜>",
                  .separator = "\n",
                  .end = "<｜tool▁calls▁end｜>"}});
  all.push_back({.name = "deepseek_v31",
                 .openings = {"<｜tool▁calls▁begin｜>"},
                 .style = HeadedCallStyle{.headers = {"{name}<｜tool▁sep｜> "},
                                          .call_begin = "<｜tool▁call▁begin｜>",
                                          .fillers = {"<｜tool▁call▁end｜>"},
                                          .close = "<｜tool▁calls▁end｜>"},
                 .layout = {.begin = "<｜tool▁calls▁begin｜>",
                            .call_begin = "<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>",
                            .call_end = "<｜tool▁call▁end｜>",
                            .end = "<｜tool▁calls▁end｜>"}});
  all.push_back(
      {.name = "kimi_k2",
       .openings = {"<|tool_calls_section_begin|>"},
       .style = HeadedCallStyle{.headers = {"{id}<|tool_call_argument_begin|> "},
                                .call_begin = "<|tool_call_begin|>",
                                .fillers = {"<|tool_call_end|>"},
                                .close = "<|tool_calls_section_end|>"},
       .layout = {.begin = "<|tool_calls_section_begin|>",
                  .call_begin =
                      "<|tool_call_begin|>functions.{name}:{index}<|tool_call_argument_begin|>",
                  .call_end = "<|tool_call_end|>",
                  .end = "<|tool_calls_section_end|>"},
       .ids = CallIds::kKimi});
  all.push_back({.name = "functionary",
                 .openings = {"<function="},
                 .style = HeadedCallStyle{.headers = {"{name}> "}, .fillers = {"</function>"}},
                 .layout = {.call_begin = "<function={name}>", .call_end = "</function>"}});
  all.push_back(
      {.name = "solar_open",
       .openings = {"<|tool_calls|>"},
       .style = HeadedCallStyle{.headers = {"{id}<|tool_call:name|>{name}<|tool_call:args|> "},
                                .call_begin = "<|tool_call:begin|>",
                                .fillers = {"<|tool_call:end|>"},
                                .close = "<|calls|>"}});
  return all;
}

std::vector<Dialect> tagged_dialects() {
  std::vector<Dialect> all;
  const TaggedCallStyle qwen{.call_begin = "<function=",
                             .name_end = ">",
                             .parameter_begin = "<parameter=",
                             .parameter_name_end = ">",
                             .value_end = "</parameter>",
                             .call_end = "</function>",
                             .close = "</tool_call>",
                             .trims_newline = true};
  const auto qwen_layout = [](const std::string& open, const std::string& close) {
    return CallLayout{.call_begin = open + "\n<function={name}>\n",
                      .call_end = "</function>\n" + close,
                      .separator = "\n",
                      .parameter_begin = "<parameter={name}>\n",
                      .parameter_end = "\n</parameter>\n"};
  };
  all.push_back({.name = "qwen3_coder",
                 .aliases = {"qwen3_xml", "mimo", "step3p5", "nemotron_v3"},
                 .openings = {"<tool_call>", "<function="},
                 .style = qwen,
                 .layout = qwen_layout("<tool_call>", "</tool_call>"),
                 .ids = CallIds::kCallHex});
  TaggedCallStyle seed = qwen;
  seed.close = "</seed:tool_call>";
  all.push_back({.name = "seed_oss",
                 .openings = {"<seed:tool_call>"},
                 .style = seed,
                 .layout = qwen_layout("<seed:tool_call>", "</seed:tool_call>"),
                 .ids = CallIds::kCallHex});
  const TaggedCallStyle glm{.call_begin = "<tool_call>",
                            .parameter_begin = "<arg_key>",
                            .parameter_name_end = "</arg_key>",
                            .value_begin = "<arg_value>",
                            .value_end = "</arg_value>",
                            .call_end = "</tool_call>",
                            .undeclared_is_json = true};
  all.push_back({.name = "glm45",
                 .openings = {"<tool_call>"},
                 .style = glm,
                 .layout = {.call_begin = "<tool_call>{name}\n",
                            .call_end = "</tool_call>",
                            .separator = "\n",
                            .parameter_begin = "<arg_key>{name}</arg_key>\n<arg_value>",
                            .parameter_end = "</arg_value>\n"}});
  all.push_back({.name = "glm47",
                 .aliases = {"poolside_v1"},
                 .openings = {"<tool_call>"},
                 .style = glm,
                 .layout = {.call_begin = "<tool_call>{name}",
                            .call_end = "</tool_call>",
                            .parameter_begin = "<arg_key>{name}</arg_key><arg_value>",
                            .parameter_end = "</arg_value>"}});
  const TaggedCallStyle minimax{.call_begin = "<invoke name=\"",
                                .name_end = "\">",
                                .parameter_begin = "<parameter name=\"",
                                .parameter_name_end = "\">",
                                .value_end = "</parameter>",
                                .call_end = "</invoke>",
                                .close = "</minimax:tool_call>",
                                .trims_newline = true};
  all.push_back({.name = "minimax_m2",
                 .openings = {"<minimax:tool_call>"},
                 .style = minimax,
                 .layout = {.begin = "<minimax:tool_call>\n",
                            .call_begin = "<invoke name=\"{name}\">\n",
                            .call_end = "</invoke>",
                            .separator = "\n",
                            .end = "\n</minimax:tool_call>",
                            .parameter_begin = "<parameter name=\"{name}\">",
                            .parameter_end = "</parameter>\n"},
                 .ids = CallIds::kCallHex});
  for (const auto& [name, section] :
       {std::pair<std::string, std::string>("deepseek_v32", "function_calls"),
        {"deepseek_v4", "tool_calls"}}) {
    all.push_back({.name = name,
                   .openings = {"<｜DSML｜" + section + ">"},
                   .style = TaggedCallStyle{.call_begin = "<｜DSML｜invoke name=\"",
                                            .name_end = "\">",
                                            .parameter_begin = "<｜DSML｜parameter name=\"",
                                            .parameter_name_end = "\"",
                                            .value_end = "</｜DSML｜parameter>",
                                            .call_end = "</｜DSML｜invoke>",
                                            .close = "</｜DSML｜" + section + ">",
                                            .says_string = true},
                   .layout = {.begin = "<｜DSML｜" + section + ">\n",
                              .call_begin = "<｜DSML｜invoke name=\"{name}\">\n",
                              .call_end = "</｜DSML｜invoke>",
                              .separator = "\n",
                              .end = "\n</｜DSML｜" + section + ">",
                              .parameter_begin = "<｜DSML｜parameter name=\"{name}\" "
                                                 "string=\"{is_string}\">",
                              .parameter_end = "</｜DSML｜parameter>\n"}});
  }
  for (const std::string& suffix : {std::string(), std::string(":opensource")}) {
    const auto tag = [&](std::string_view name) { return fmt::format("<{}{}>", name, suffix); };
    const TaggedCallStyle hy{.call_begin = tag("tool_call"),
                             .name_end = tag("tool_sep"),
                             .parameter_begin = tag("arg_key"),
                             .parameter_name_end = tag("/arg_key"),
                             .value_begin = tag("arg_value"),
                             .value_end = tag("/arg_value"),
                             .call_end = tag("/tool_call"),
                             .close = tag("/tool_calls"),
                             .undeclared_is_json = true};
    all.push_back({.name = suffix.empty() ? "hy_v3" : "hy_v3_opensource",
                   .openings = {tag("tool_calls")},
                   .style = hy,
                   .layout = {.begin = tag("tool_calls") + "\n",
                              .call_begin = hy.call_begin + "{name}" + hy.name_end + "\n",
                              .call_end = hy.call_end,
                              .separator = "\n",
                              .end = "\n" + hy.close,
                              .parameter_begin = hy.parameter_begin + "{name}" +
                                                 hy.parameter_name_end + "\n" + hy.value_begin,
                              .parameter_end = hy.value_end + "\n"}});
  }
  all.push_back(
      {.name = "step3",
       .openings = {"<｜tool_calls_begin｜>"},
       .style = TaggedCallStyle{
           .call_begin = "<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name=\"",
           .name_end = "\">",
           .parameter_begin = "<steptml:parameter name=\"",
           .parameter_name_end = "\">",
           .value_end = "</steptml:parameter>",
           .call_end = "</steptml:invoke><｜tool_call_end｜>",
           .close = "<｜tool_calls_end｜>"}});
  all.push_back({.name = "minicpm5",
                 .openings = {"<function name=\""},
                 .style = TaggedCallStyle{.call_begin = "<function name=\"",
                                          .name_end = "\">",
                                          .parameter_begin = "<param name=\"",
                                          .parameter_name_end = "\">",
                                          .value_end = "</param>",
                                          .call_end = "</function>",
                                          .quote_begin = "<![CDATA[",
                                          .quote_end = "]]>"}});
  return all;
}

std::vector<Dialect> python_dialects() {
  std::vector<Dialect> all;
  const CallLayout list{
      .begin = "[", .call_begin = "{name}(", .call_end = ")", .separator = ", ", .end = "]"};
  all.push_back({.name = "pythonic",
                 .aliases = {"toolace"},
                 .begins_reply = "[",
                 .style = PythonCallStyle{},
                 .layout = list});
  all.push_back({.name = "llama4_pythonic",
                 .openings = {"<|python_start|>"},
                 .begins_reply = "[",
                 .style = PythonCallStyle{.close = "<|python_end|>"},
                 .layout = list});
  all.push_back({.name = "lfm2",
                 .openings = {"<|tool_call_start|>"},
                 .style = PythonCallStyle{.close = "<|tool_call_end|>"},
                 .layout = {.begin = "<|tool_call_start|>[",
                            .call_begin = "{name}(",
                            .call_end = ")",
                            .separator = ", ",
                            .end = "]<|tool_call_end|>"}});
  all.push_back({.name = "olmo3",
                 .openings = {"<function_calls>"},
                 .style = PythonCallStyle{.is_list = false, .close = "</function_calls>"},
                 .layout = {.begin = "<function_calls>\n",
                            .call_begin = "{name}(",
                            .call_end = ")",
                            .separator = "\n",
                            .end = "\n</function_calls>"}});
  all.push_back({.name = "gemma3",
                 .aliases = {"gemma3_pythonic"},
                 .openings = {"```tool_code"},
                 .begins_reply = "[",
                 .style = PythonCallStyle{.close = "```"},
                 .layout = list});
  all.push_back(
      {.name = "gemma4",
       .openings = {"<|tool_call>"},
       .style = GemmaCallStyle{.call_begin = "call:", .quote = "<|\"|>", .close = "<tool_call|>"},
       .layout = {.call_begin = "<|tool_call>call:{name}{", .call_end = "}<tool_call|>"}});
  all.push_back({.name = "functiongemma",
                 .openings = {"<start_function_call>"},
                 .style = GemmaCallStyle{.call_begin = "call:",
                                         .quote = "<escape>",
                                         .close = "<end_function_call>",
                                         .quotes_all = true},
                 .layout = {.call_begin = "<start_function_call>call:{name}{",
                            .call_end = "}<end_function_call>"}});
  all.push_back({.name = "openai",
                 .aliases = {"gpt_oss", "harmony"},
                 .openings = {},
                 .style = HarmonyStyle{},
                 .layout = {.call_begin = "<|channel|>commentary to=functions.{name} "
                                          "<|constrain|>json<|message|>",
                            .call_end = "<|call|>"}});
  return all;
}

bool contains(std::string_view text, std::string_view what) { return text.find(what) != text.npos; }

}  // namespace

std::vector<Dialect> make_dialects() {
  std::vector<Dialect> all = json_dialects();
  for (auto&& more : {headed_dialects(), tagged_dialects(), python_dialects()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

// Signs that only one dialect's templates have come before those that several dialects share.
const Dialect* dialect_of_template(std::string_view source) {
  struct Sign {
    std::string_view dialect;
    std::string_view text;
    std::string_view also = {};
    std::string_view without = {};
  };
  constexpr Sign kSigns[] = {
      {"openai", "<|channel|>", "<|constrain|>"},
      {"openai", "<|channel|>commentary"},
      {"deepseek_v32", "DSML", "function_calls"},
      {"deepseek_v4", "DSML", "tool_calls"},
      {"deepseek_v3", "tool▁calls▁begin", "```json"},
      {"deepseek_v31", "tool▁calls▁begin"},
      {"kimi_k2", "<|tool_calls_section_begin|>"},
      {"gemma4", "<|tool_call>call:"},
      {"functiongemma", "<start_function_call>"},
      {"mistral", "[TOOL_CALLS]", "[ARGS]"},
      {"mistral_list", "[TOOL_CALLS]"},
      {"minimax_m2", "<minimax:tool_call>"},
      {"seed_oss", "<seed:tool_call>"},
      {"hy_v3_opensource", "tool_sep:opensource"},
      {"hy_v3_opensource", "<tool_sep", ":opensource"},
      {"hy_v3", "<tool_sep>"},
      {"step3", "<steptml:invoke"},
      {"qwen3_coder", "<tool_call>", "<function="},
      {"minicpm5", "<function name=", "<param name="},
      {"glm47", "<arg_key>", "<tool_call>", "\n<arg_key>"},
      {"glm45", "<arg_key>", "<tool_call>"},
      {"longcat", "<longcat_tool_call>"},
      {"hermes", "<tool_call>", "\"name\"", "<|tool_call|>"},
      {"hermes", "<tool_call>", "'name'", "<|tool_call|>"},
      {"hermes", "<tool_call>", "arguments", "<|tool_call|>"},
      {"cohere_command4", "<|START_ACTION|>"},
      {"internlm", "<|action_start|>"},
      {"apertus", "<|tools_prefix|>"},
      {"solar_open", "<|tool_call:begin|>"},
      {"gigachat3", "<|function_call|>"},
      {"gigachat3", "function call<|role_sep|>"},
      {"phi4_mini_json", "functools"},
      {"granite", "<|tool_call|>", "", "<|/tool_call|>"},
      {"phi4_mini_json", "<|tool_call|>"},
      {"lfm2", "<|tool_call_start|>"},
      {"olmo3", "<function_calls>"},
      {"nemotron_nano_v2", "<TOOLCALL>"},
      {"granite-20b-fc", "<function_call>"},
      {"hunyuan_a13b", "<tool_calls>["},
      {"minimax", "<tool_calls>"},
      {"functionary", "<function=", "</function>"},
      {"llama4_pythonic", "<|python_start|>"},
      {"llama3_json", "\"parameters\": "},
      {"llama3_json", "Respond in the format {\"name\": function name"},
      {"llama3_json", "<|python_tag|>"},
      {"gemma3", "<start_of_turn>", "func_name1("},
      {"pythonic", "[func_name1("},
      {"xlam", "tool_calls", "[{\"name\": \""},
  };
  for (const Sign& sign : kSigns) {
    if (contains(source, sign.text) && contains(source, sign.also) &&
        (sign.without.empty() || !contains(source, sign.without))) {
      return find_dialect(sign.dialect);
    }
  }
  return nullptr;
}

}  // namespace quire
