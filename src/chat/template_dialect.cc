#include "chat/template_dialect.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <vector>

#include "chat/chat_prompt.h"
#include "chat/reply_parser.h"

namespace quire {
namespace {

namespace json = boost::json;

constexpr std::string_view kTools = R"([
  {"type": "function", "function": {"name": "get_weather", "description": "W", "parameters":
    {"type": "object", "properties": {"city": {"type": "string", "description": "C"},
     "days": {"type": "integer", "description": "D"}}, "required": ["city"]}}}])";
constexpr std::string_view kArguments = R"({"city": "Zürich", "days": 3})";

json::object call_of(std::string_view id) {
  return {{"id", id},
          {"type", "function"},
          {"function", {{"name", "get_weather"}, {"arguments", json::parse(kArguments)}}}};
}

// Returns what the template prints for an assistant's calls after the beginning of the same
// conversation; empty: it prints nothing, or refuses the conversation.
std::string printed_calls(const ChatTemplate& chat_template, const json::object& special_tokens,
                          size_t num_calls) {
  const json::object user{{"role", "user"}, {"content", "Hi"}};
  for (const json::value& content : {json::value(""), json::value()}) {
    json::array calls;
    for (size_t i = 0; i < num_calls; ++i)
      calls.push_back(call_of(i == 0 ? "a1b2c3d4e" : "f1b2c3d4e"));
    ChatPromptOptions options{.messages = {user},
                              .tools = json::parse(kTools).as_array(),
                              .special_tokens = special_tokens};
    const auto before = render_chat(chat_template, options);
    options.messages.push_back(
        json::object{{"role", "assistant"}, {"content", content}, {"tool_calls", calls}});
    options.add_generation_prompt = false;
    const auto whole = render_chat(chat_template, options);
    if (!before.ok() || !whole.ok()) continue;
    const auto common = std::mismatch(before->begin(), before->end(), whole->begin(), whole->end());
    // A mark may begin with the same characters as the generation prompt's end.
    auto begin = static_cast<size_t>(common.second - whole->begin());
    while (begin > 0 && begin < whole->size() && common.first != before->end() &&
           std::string_view("<[").find((*whole)[begin]) == std::string_view::npos) {
      --begin;
    }
    std::string printed = whole->substr(begin);
    if (printed.find("get_weather") != printed.npos) return printed;
  }
  return {};
}

bool same_json(std::string_view left, std::string_view right) {
  json::error_code left_error, right_error;
  const json::value a = json::parse(left, left_error), b = json::parse(right, right_error);
  return !left_error && !right_error && a == b;
}

bool reads_back(const Dialect& dialect, std::string_view printed, size_t num_calls) {
  const ReplySyntax syntax({&dialect, find_reasoning_style("qwen3")}, {});
  const ToolTypes types(json::parse(kTools).as_array());
  ReplyParser parser(syntax, {.tools = &types});
  std::vector<ReplyEvent> events;
  parser.feed(printed, {}, events);
  parser.finish(/*was_cut=*/false, events);
  size_t num_read = 0;
  std::string arguments;
  for (const ReplyEvent& event : events) {
    if (event.kind == ReplyEvent::Kind::kCallBegin) {
      if (event.text != "get_weather") return false;
      arguments.clear();
    }
    if (event.kind == ReplyEvent::Kind::kArguments) arguments += event.text;
    if (event.kind != ReplyEvent::Kind::kCallEnd) continue;
    if (!event.is_complete || !same_json(arguments, kArguments)) return false;
    ++num_read;
  }
  return num_read == num_calls;
}

// Returns `first` if it reads the calls, otherwise any dialect that does; null: none does.
const Dialect* dialect_that_reads(std::string_view printed, size_t num_calls,
                                  const Dialect* first) {
  if (first != nullptr && reads_back(*first, printed, num_calls)) return first;
  for (const Dialect& dialect : dialects()) {
    if (reads_back(dialect, printed, num_calls)) return &dialect;
  }
  return nullptr;
}

}  // namespace

TemplateCalls calls_of_template(const ChatTemplate& chat_template,
                                const json::object& special_tokens) {
  TemplateCalls found{.dialect = dialect_of_template(chat_template.source())};
  // Some templates only print one call.
  for (const size_t num_calls : {2, 1}) {
    const std::string printed = printed_calls(chat_template, special_tokens, num_calls);
    if (printed.empty()) continue;
    if (found.printed.empty()) found.printed = printed;
    const Dialect* const read = dialect_that_reads(printed, num_calls, found.dialect);
    if (read == nullptr) continue;
    return {.dialect = read, .reads_back = true, .printed = printed};
  }
  return found;
}

}  // namespace quire
