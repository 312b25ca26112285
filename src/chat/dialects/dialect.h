// A Dialect describes as data how a model writes tool calls: what stands around a call, its name
// and its arguments. Each style has a reader (call_reader.h); a dialect is a style with its marks
// filled in.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace quire {

class MarkTable;

// The style of calls that are JSON objects with a name and arguments: {"name": "f", "arguments":
// {…}}. In all of its dialects "tool_name" and "parameters" are read too.
struct JsonCallStyle {
  std::string close = {};    // ends the calls after a mark; may be missing
  std::string filler = {};   // between the opening and the first call
  bool name_is_key = false;  // {"f": {…}}
};

// The style of calls with a header that names the function, then the arguments as JSON.
struct HeadedCallStyle {
  // The forms of the text between the opening, or `call_begin`, and the arguments; the first form
  // that fits is used. {name}, {id} and {index} are fields; a blank stands for any blanks.
  std::vector<std::string> headers;
  std::string call_begin = {};            // begins each call, unless the opening does
  std::vector<std::string> fillers = {};  // between calls
  std::string close = {};                 // ends all calls
  bool json_too = false;                  // a list of JsonCallStyle may follow the opening
};

// The style of calls whose parameters stand one by one between tags, with values as text.
struct TaggedCallStyle {
  std::string call_begin;  // before the name
  std::string name_end;    // empty: at the next blank or mark
  std::string parameter_begin;
  std::string parameter_name_end;
  std::string value_begin = {};  // between the parameter's name and its value, besides blanks
  std::string value_end;
  std::string call_end;
  std::string close = {};
  bool trims_newline = false;       // removes one newline at each end of a value
  bool undeclared_is_json = false;  // values without a declared type are read as JSON
  // The parameter's name is followed by ` string="true">` or ` string="false">`, which says whether
  // the value is text or JSON.
  bool says_string = false;
  std::string quote_begin = {}, quote_end = {};  // optional marks around a value: <![CDATA[ and ]]>
};

// The style of calls in Python's syntax: f(a="x", b=[1]).
struct PythonCallStyle {
  bool is_list = true;  // [f(), g()]; otherwise one call per line
  std::string close = {};
};

// The style of Gemma's calls: call:f{a:<|"|>x<|"|>,b:[1]}.
struct GemmaCallStyle {
  std::string call_begin;  // before the name
  std::string quote;       // around strings
  std::string close;
  bool quotes_all = false;  // values other than strings may be quoted too
};

// The style of gpt-oss, whose whole reply consists of messages in channels, including reasoning and
// content.
struct HarmonyStyle {
  std::string start = "<|start|>";
  std::string channel = "<|channel|>";
  std::string constrain = "<|constrain|>";
  std::string message = "<|message|>";
  std::string end = "<|end|>";
  std::string call = "<|call|>";
  std::string end_of_reply = "<|return|>";
};

// How a dialect writes calls, for grammars. {name} stands for the name of the function or the
// parameter, {index} for a number, {is_string} for true or false.
struct CallLayout {
  std::string begin = {};  // before all calls
  std::string call_begin = {};
  std::string call_end = {};
  std::string separator = {};  // between calls
  std::string end = {};
  // Only for TaggedCallStyle.
  std::string parameter_begin = {};
  std::string parameter_end = {};
};

enum class CallIds : uint8_t {
  kLong,     // chatcmpl-tool-…
  kCallHex,  // call_ and 24 hexadecimal digits
  kMistral,  // 9 letters and digits
  kKimi,     // functions.NAME:N, where N counts over the whole conversation
};

struct Dialect {
  std::string name;  // as --tool-call-parser takes it
  std::vector<std::string> aliases = {};
  std::vector<std::string> openings;  // marks that come before calls
  std::string begins_reply = {};      // characters with which a reply of calls may begin
  std::variant<JsonCallStyle, HeadedCallStyle, TaggedCallStyle, PythonCallStyle, GemmaCallStyle,
               HarmonyStyle>
      style;
  CallLayout layout = {};
  CallIds ids = CallIds::kLong;
};

// Returns all dialects, in the order of use. They live as long as the program.
std::span<const Dialect> dialects();
// Finds a dialect by its name or an alias; null: there is none.
const Dialect* find_dialect(std::string_view name);
// Returns the dialect in which a chat template (its source) writes earlier calls; null when it
// shows none.
const Dialect* dialect_of_template(std::string_view template_source);

// Returns every text that the dialect's reader looks for.
std::vector<std::string> patterns_of(const Dialect& dialect);
// Returns the same dialect with its patterns encoded by `marks`.
Dialect encoded(const Dialect& dialect, const MarkTable& marks);

}  // namespace quire
