#include "chat/tool_calls.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <optional>

namespace quire {
namespace {

using Kind = ToolCallScan::Kind;

constexpr std::string_view kHermesEnd = "</tool_call>";
constexpr std::string_view kMistralMark = "[TOOL_CALLS]";
constexpr std::string_view kArgumentsMark = "[ARGS]";
constexpr std::string_view kCallIdMark = "[CALL_ID]";

bool contains(std::string_view text, std::string_view what) { return text.find(what) != text.npos; }

// The whole of `mark` could follow: `text` is the beginning of it.
bool may_become(std::string_view text, std::string_view mark) {
  return text.size() < mark.size() && mark.starts_with(text);
}

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

// Where the object that `text` begins with ends, by its braces; npos while it is open.
size_t object_end(std::string_view text) {
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{') {
      ++depth;
    } else if (c == '}' && --depth == 0) {
      return i + 1;
    }
  }
  return text.npos;
}

std::optional<boost::json::object> read_object(std::string_view text) {
  boost::json::error_code error;
  boost::json::value value = boost::json::parse({text.data(), text.size()}, error);
  if (error || !value.is_object()) return std::nullopt;
  return std::move(value).as_object();
}

// {"name": …, "arguments": …}; Llama says "parameters".
std::optional<ToolCall> read_call(std::string_view body) {
  const auto object = read_object(body);
  if (!object) return std::nullopt;
  const boost::json::value* name = object->if_contains("name");
  if (name == nullptr || !name->is_string()) return std::nullopt;
  const boost::json::value* arguments = object->if_contains("arguments");
  if (arguments == nullptr) arguments = object->if_contains("parameters");
  return ToolCall{.name = std::string(name->get_string()),
                  .arguments = arguments == nullptr ? "{}" : boost::json::serialize(*arguments)};
}

ToolCallScan scan_hermes(std::string_view text) {
  const size_t at = text.find(kHermesEnd);
  if (at == text.npos) return {};
  std::optional<ToolCall> call = read_call(text.substr(0, at));
  if (!call) return {.kind = Kind::kOther};
  return {.kind = Kind::kCall, .end = at + kHermesEnd.size(), .call = std::move(*call)};
}

// Behind blanks, list punctuation and further marks; nothing when the text may end inside a mark.
std::optional<size_t> skip_separators(ToolCallFormat format, std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const std::string_view rest = text.substr(at);
    if (format == ToolCallFormat::kMistral && rest.starts_with(kMistralMark)) {
      at += kMistralMark.size();
    } else if (format == ToolCallFormat::kMistral && rest.size() > 1 &&
               may_become(rest, kMistralMark)) {
      return std::nullopt;
    } else if (std::string_view(" \t\r\n,;[]").find(rest[0]) != std::string_view::npos) {
      ++at;
    } else {
      break;
    }
  }
  return at;
}

// name[CALL_ID]id[ARGS]{…} with or without the id and the marks, at text[begin]. Sets `name`.
Kind scan_name(std::string_view text, size_t begin, std::string_view& name, size_t& arguments) {
  size_t at = begin;
  const auto skip_word = [&] {
    while (at < text.size() && is_name_char(text[at])) ++at;
  };
  skip_word();
  name = text.substr(begin, at - begin);
  for (const std::string_view mark : {kCallIdMark, kArgumentsMark}) {
    const std::string_view rest = text.substr(at);
    if (may_become(rest, mark)) return Kind::kOpen;
    if (!rest.starts_with(mark)) continue;
    at += mark.size();
    if (mark == kCallIdMark) skip_word();
  }
  while (at < text.size() && text[at] == ' ') ++at;
  if (at == text.size()) return Kind::kOpen;
  arguments = at;
  return text[at] == '{' && !name.empty() ? Kind::kCall : Kind::kOther;
}

ToolCallScan scan_named(std::string_view text, size_t begin) {
  std::string_view name;
  size_t arguments = 0;
  ToolCallScan scan{.begin = begin};
  scan.kind = scan_name(text, begin, name, arguments);
  if (scan.kind != Kind::kCall) return scan;
  const size_t size = object_end(text.substr(arguments));
  if (size == text.npos) return {.begin = begin};
  const auto object = read_object(text.substr(arguments, size));
  if (!object) return {.kind = Kind::kOther, .begin = begin};
  scan.end = arguments + size;
  scan.call = {.name = std::string(name), .arguments = boost::json::serialize(*object)};
  return scan;
}

}  // namespace

Result<ToolCallFormat> parse_tool_call_format(std::string_view name) {
  if (name.empty()) return ToolCallFormat::kNone;
  if (name == "hermes") return ToolCallFormat::kHermes;
  if (name == "llama3_json") return ToolCallFormat::kLlama3Json;
  if (name == "mistral") return ToolCallFormat::kMistral;
  return invalid_argument("tool-call-parser: expected hermes, llama3_json or mistral, got {}",
                          name);
}

ToolCallFormat guess_tool_call_format(std::string_view source) {
  // Dialects that share a mark with one of ours and write something else behind it.
  for (const std::string_view other : {"<function=", "<arg_key>", "<parameter", "<invoke"}) {
    if (contains(source, other)) return ToolCallFormat::kNone;
  }
  const bool hermes = contains(source, "<tool_call>") && contains(source, "arguments");
  const bool llama =
      contains(source, "<|start_header_id|>") && contains(source, "\"parameters\": ");
  const bool mistral = contains(source, kMistralMark);
  if (hermes + llama + mistral != 1) return ToolCallFormat::kNone;
  return hermes  ? ToolCallFormat::kHermes
         : llama ? ToolCallFormat::kLlama3Json
                 : ToolCallFormat::kMistral;
}

std::string_view tool_call_mark(ToolCallFormat format) {
  switch (format) {
    case ToolCallFormat::kHermes:
      return "<tool_call>";
    case ToolCallFormat::kLlama3Json:
      return "<|python_tag|>";
    case ToolCallFormat::kMistral:
      return kMistralMark;
    case ToolCallFormat::kNone:
      break;
  }
  return {};
}

ToolCallScan scan_tool_call(ToolCallFormat format, std::string_view text) {
  if (format == ToolCallFormat::kHermes) return scan_hermes(text);
  const std::optional<size_t> begin = skip_separators(format, text);
  if (!begin || *begin == text.size()) return {};
  if (text[*begin] == '{') {
    const size_t size = object_end(text.substr(*begin));
    if (size == text.npos) return {.begin = *begin};
    std::optional<ToolCall> call = read_call(text.substr(*begin, size));
    if (!call) return {.kind = Kind::kOther, .begin = *begin};
    return {.kind = Kind::kCall, .begin = *begin, .end = *begin + size, .call = std::move(*call)};
  }
  if (format == ToolCallFormat::kMistral) return scan_named(text, *begin);
  return {.kind = Kind::kOther, .begin = *begin};
}

}  // namespace quire
