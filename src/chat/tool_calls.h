// The ways in which models write tool calls, and reading calls out of their text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

enum class ToolCallFormat : uint8_t {
  kNone,
  kHermes,      // <tool_call>{"name": …, "arguments": {…}}</tool_call>, Qwen's too
  kLlama3Json,  // a reply that begins with {"name": …, "parameters": {…}}, or what <|python_tag|>
                // begins; more calls after blanks, ',' or ';'
  kMistral,  // [TOOL_CALLS] and a list [{"name": …, "arguments": {…}}, …], or name[ARGS]{…} or
             // name{…}, each with a mark of its own
};
// "hermes", "llama3_json", "mistral"; empty gives kNone.
Result<ToolCallFormat> parse_tool_call_format(std::string_view name);

// The format that a chat template (its source) writes earlier calls in; kNone when it shows none of
// these, or more than one.
ToolCallFormat guess_tool_call_format(std::string_view template_source);

struct ToolCall {
  std::string name;
  std::string arguments;  // JSON
};

// The mark that calls stand behind.
std::string_view tool_call_mark(ToolCallFormat format);

// What stands at the beginning of a text of calls.
struct ToolCallScan {
  enum class Kind : uint8_t {
    kOpen,  // more text may make it a call
    kCall,
    kOther,  // no call, whatever follows
  };
  Kind kind = Kind::kOpen;
  size_t begin = 0;  // behind what separates calls
  size_t end = 0;    // of the call
  ToolCall call;
};

// Looks behind the mark; `text` may end anywhere. Not for kNone.
ToolCallScan scan_tool_call(ToolCallFormat format, std::string_view text);

}  // namespace quire
