// A dialect is the way in which a model writes tool calls, as data: what stands around a call, its
// name and its arguments. Each style has a reader (call_reader.h); a dialect is one style filled
// in.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace quire {

class MarkTable;

// Calls as JSON objects with a name and arguments: {"name": "f", "arguments": {…}}. Whatever the
// dialect, "tool_name" and "parameters" are read too.
struct JsonCallStyle {
  std::string close = {};    // ends the calls that a mark has opened; may be left out
  std::string filler = {};   // stands between the opening and the first call
  bool name_is_key = false;  // {"f": {…}}
};

// A header that names the function, then the arguments as JSON.
struct HeadedCallStyle {
  // Between the opening, or `call_begin`, and the arguments; the first that fits. {name}, {id} and
  // {index} stand for themselves, a blank for any blanks.
  std::vector<std::string> headers;
  std::string call_begin = {};            // of each call, where that is not the opening itself
  std::vector<std::string> fillers = {};  // between calls
  std::string close = {};                 // ends all calls
  bool json_too = false;                  // a list of JsonCallStyle may follow the opening
};

// Parameters one by one between tags, their values as text.
struct TaggedCallStyle {
  std::string call_begin;  // before the name
  std::string name_end;    // empty: at the next blank or mark
  std::string parameter_begin;
  std::string parameter_name_end;
  std::string value_begin = {};  // between the parameter's name and its value, blanks aside
  std::string value_end;
  std::string call_end;
  std::string close = {};
  bool trims_newline = false;       // one, at each end of a value
  bool undeclared_is_json = false;  // how values are read whose type no schema tells
  // The parameter's name is followed by ` string="true">` or ` string="false">`, which tells text
  // from JSON.
  bool says_string = false;
  std::string quote_begin = {}, quote_end = {};  // may stand around a value: <![CDATA[ and ]]>
};

// Calls as Python writes them: f(a="x", b=[1]).
struct PythonCallStyle {
  bool is_list = true;  // [f(), g()]; otherwise one call a line
  std::string close = {};
};

// call:f{a:<|"|>x<|"|>,b:[1]}
struct GemmaCallStyle {
  std::string call_begin;  // before the name
  std::string quote;       // around strings
  std::string close;
  bool quotes_all = false;  // values that are no strings may stand in quotes too
};

// gpt-oss: the whole reply as messages in channels, reasoning and content among them.
struct HarmonyStyle {
  std::string start = "<|start|>";
  std::string channel = "<|channel|>";
  std::string constrain = "<|constrain|>";
  std::string message = "<|message|>";
  std::string end = "<|end|>";
  std::string call = "<|call|>";
  std::string end_of_reply = "<|return|>";
};

// How a dialect writes calls, for grammars: {name} stands for the name of the function or the
// parameter, {index} for a number, {is_string} for true or false.
struct CallLayout {
  std::string begin = {};  // of all calls
  std::string call_begin = {};
  std::string call_end = {};
  std::string separator = {};  // between calls
  std::string end = {};
  // Of TaggedCallStyle.
  std::string parameter_begin = {};
  std::string parameter_end = {};
};

enum class CallIds : uint8_t {
  kLong,     // chatcmpl-tool-…
  kCallHex,  // call_ and 24 hexadecimal digits
  kMistral,  // 9 letters and digits
  kKimi,     // functions.NAME:N, N over the whole conversation
};

struct Dialect {
  std::string name;  // as --tool-call-parser takes it
  std::vector<std::string> aliases = {};
  std::vector<std::string> openings;  // marks that calls stand behind
  std::string begins_reply = {};      // characters with which a reply of calls may begin
  std::variant<JsonCallStyle, HeadedCallStyle, TaggedCallStyle, PythonCallStyle, GemmaCallStyle,
               HarmonyStyle>
      style;
  CallLayout layout = {};
  CallIds ids = CallIds::kLong;
};

// Returns all dialects, in the order of use. They live as long as the program.
std::span<const Dialect> dialects();
// By name or alias; null: there is none.
const Dialect* find_dialect(std::string_view name);
// Returns the dialect that a chat template (its source) writes earlier calls in, or null when it
// shows none.
const Dialect* dialect_of_template(std::string_view template_source);

// Returns every text that the dialect's reader looks for.
std::vector<std::string> patterns_of(const Dialect& dialect);
// Returns the same dialect with its patterns as `marks` encode them.
Dialect encoded(const Dialect& dialect, const MarkTable& marks);

}  // namespace quire
