#include "chat/dialects/literal_grammar.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <iterator>
#include <vector>

namespace quire {
namespace {

// How a language writes literals.
struct Literals {
  std::string assign;     // between a name and its value
  std::string separator;  // between arguments
  std::string quote;      // around strings
  std::string text;       // rule `text`: the text between the quotes
  bool has_escapes;       // a backslash in a text begins an escape
  std::string true_word, false_word, null_word;
  std::string key;  // of an object's member, with its separator
};

// Returns a terminal with GBNF's quotes and escapes.
std::string terminal(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + '"';
}

// Returns the text with Python's escapes.
std::string escaped(std::string_view text) {
  constexpr std::string_view kBytes = "\"\\\n\r\t", kNames = "\"\\nrt";
  std::string out;
  for (const char c : text) {
    if (const size_t at = kBytes.find(c); at != kBytes.npos) {
      out += '\\';
      out += kNames[at];
    } else if (const auto byte = static_cast<unsigned char>(c); byte < 0x20) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

// Returns how the language writes a string.
Result<std::string> literal_of(const Literals& l, std::string_view text) {
  if (l.has_escapes) return l.quote + escaped(text) + l.quote;
  const std::string ended = std::string(text) + l.quote;
  if (ended.find(l.quote) != text.size()) {
    return invalid_argument(
        "tools: expected enum values without {}, which ends a string in this "
        "model's calls, got {}",
        l.quote, text);
  }
  return l.quote + ended;
}

// Returns the rules of all values, which are named after their types.
std::string value_rules(const Literals& l) {
  const std::string quote = terminal(l.quote);
  return fmt::format(
      "text ::= {}\n"
      "string ::= {} text {}\n"
      "integer ::= \"-\"? (\"0\" | [1-9] [0-9]{{0,17}})\n"
      "number ::= integer (\".\" [0-9]{{1,17}})? ([eE] [+-]? [0-9]{{1,3}})?\n"
      "boolean ::= {} | {}\n"
      "null ::= {}\n"
      "array ::= \"[\" (value (\",\" \" \"? value)*)? \"]\"\n"
      "member ::= {} value\n"
      "object ::= \"{{\" (member (\",\" \" \"? member)*)? \"}}\"\n"
      "value ::= string | number | boolean | null | array | object\n",
      l.text, quote, quote, terminal(l.true_word), terminal(l.false_word), terminal(l.null_word),
      l.key);
}

// Returns the rule for the values of one parameter.
Result<std::string> value_of(const Literals& l, const Parameter& parameter) {
  const auto* const values = parameter.schema.if_contains("enum");
  std::string out;
  const auto add = [&](std::string_view alternative) {
    if (!out.empty()) out += " | ";
    out += alternative;
  };
  if (parameter.types == kTypeString && values != nullptr && values->is_array()) {
    for (const boost::json::value& value : values->get_array()) {
      if (!value.is_string()) continue;
      QUIRE_ASSIGN_OR_RETURN(const std::string literal, literal_of(l, value.get_string()));
      add(terminal(literal));
    }
    if (!out.empty()) return "(" + out + ")";
  }
  constexpr std::pair<uint8_t, std::string_view> kRules[] = {
      {kTypeString, "string"},   {kTypeInteger, "integer"}, {kTypeNumber, "number"},
      {kTypeBoolean, "boolean"}, {kTypeNull, "null"},       {kTypeObject, "object"},
      {kTypeArray, "array"}};
  for (const auto& [type, rule] : kRules) {
    if ((parameter.types & type) != 0) add(rule);
  }
  return out.empty() ? "value" : "(" + out + ")";
}

// The rule first-N applies when no argument stands before parameter N, next-N when there is one.
Result<std::string> arguments_grammar(const Literals& l, const Parameters& declared) {
  std::string out;
  const std::string separator = terminal(l.separator);
  if (!declared) {
    out = fmt::format(
        "root ::= (argument ({} argument)*)?\n"
        "argument ::= [A-Za-z_] [A-Za-z0-9_]{{0,63}} {} value\n",
        separator, terminal(l.assign));
    return out + value_rules(l);
  }
  const std::vector<Parameter>& parameters = *declared;
  out = "root ::= first-0\n";
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    QUIRE_ASSIGN_OR_RETURN(const std::string value, value_of(l, parameter));
    const std::string here =
        fmt::format("{} {} next-{}", terminal(parameter.name + l.assign), value, i + 1);
    const auto skip = [&](std::string_view rule) {
      return parameter.is_required ? std::string() : fmt::format(" | {}-{}", rule, i + 1);
    };
    out += fmt::format("first-{} ::= {}{}\n", i, here, skip("first"));
    out += fmt::format("next-{} ::= {} {}{}\n", i, separator, here, skip("next"));
  }
  out += fmt::format("first-{} ::= \"\"\nnext-{} ::= \"\"\n", parameters.size(), parameters.size());
  return out + value_rules(l);
}

}  // namespace

Result<std::string> python_arguments_grammar(const Parameters& parameters) {
  return arguments_grammar({.assign = "=",
                            .separator = ", ",
                            .quote = "\"",
                            .text = R"(([^"\\\x00-\x1F] | "\\" ["\\nrt'])*)",
                            .has_escapes = true,
                            .true_word = "True",
                            .false_word = "False",
                            .null_word = "None",
                            .key = "string \": \""},
                           parameters);
}

Result<std::string> gemma_arguments_grammar(const GemmaCallStyle& style,
                                            const Parameters& parameters) {
  return arguments_grammar({.assign = ":",
                            .separator = ",",
                            .quote = style.quote,
                            .text = "[^<]*",
                            .has_escapes = false,
                            .true_word = "true",
                            .false_word = "false",
                            .null_word = "null",
                            .key = "[A-Za-z_] [A-Za-z0-9_]{0,63} \":\""},
                           parameters);
}

}  // namespace quire
