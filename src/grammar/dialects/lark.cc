#include "grammar/dialects/lark.h"

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <map>

#include "grammar/dialects/lark_syntax.h"
#include "grammar/json_schema/json_schema.h"
#include "grammar/read/regex.h"
#include "grammar/rules/encoding.h"

namespace quire::grammar {
namespace {

// The names that lark/grammars/common.lark of the Lark parser defines.
struct CommonTerminal {
  std::string_view name, pattern;
};
constexpr CommonTerminal kCommonTerminals[] = {
    {"DIGIT", "[0-9]"},
    {"HEXDIGIT", "[0-9a-fA-F]"},
    {"INT", "[0-9]+"},
    {"SIGNED_INT", "[+-]?[0-9]+"},
    {"DECIMAL", "[0-9]+\\.[0-9]*|\\.[0-9]+"},
    {"FLOAT", "[0-9]+[eE][+-]?[0-9]+|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?"},
    {"SIGNED_FLOAT", "[+-]?([0-9]+[eE][+-]?[0-9]+|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?)"},
    {"NUMBER", "[0-9]+|[0-9]+[eE][+-]?[0-9]+|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?"},
    {"SIGNED_NUMBER",
     "[+-]?([0-9]+|[0-9]+[eE][+-]?[0-9]+|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?)"},
    {"ESCAPED_STRING", "\"([^\"\\\\\\n]|\\\\.)*\""},
    {"LCASE_LETTER", "[a-z]"},
    {"UCASE_LETTER", "[A-Z]"},
    {"LETTER", "[A-Za-z]"},
    {"WORD", "[A-Za-z]+"},
    {"CNAME", "[A-Za-z_][A-Za-z_0-9]*"},
    {"WS_INLINE", "[ \\t]+"},
    {"WS", "[ \\t\\f\\r\\n]+"},
    {"CR", "\\r"},
    {"LF", "\\n"},
    {"NEWLINE", "(\\r?\\n)+"},
};

class LarkBuilder {
 public:
  LarkBuilder(ExprStore& store, Rules& rules, const LarkSyntax& syntax, const JsonOptions& json,
              const std::vector<std::string>& special_tokens)
      : store_(store),
        rules_(rules),
        syntax_(syntax),
        json_(json),
        special_tokens_(special_tokens),
        encoder_(store, TextForm::kPlain) {}

  Result<RuleId> build() {
    for (const auto& [name, definition] : syntax_.definitions) {
      if (!is_terminal_name(name)) rule_of_[name] = rules_.add_rule();
    }
    if (!rule_of_.contains("start")) return invalid_argument("lark: expected a rule 'start'");
    std::vector<ExprId> ignored;
    for (const uint32_t node : syntax_.ignored) {
      QUIRE_ASSIGN_OR_RETURN(const ExprId expr, expr_of(node));
      ignored.push_back(expr);
    }
    if (!ignored.empty()) skip_ = store_.star(store_.any_of(std::move(ignored)));
    for (const auto& [name, rule] : rule_of_) {
      QUIRE_ASSIGN_OR_RETURN(const Fragment body, fragment_of(syntax_.definitions.at(name)));
      rules_.define(rule, body);
    }
    return rule_of_["start"];
  }

 private:
  Status error(const LarkNode& node, std::string_view what) const {
    return invalid_argument("lark: line {}: {}", node.line, what);
  }

  Fragment lexeme(ExprId expr) { return rules_.terminal(store_.concat(skip_, expr)); }

  // Makes the fragment of a node. LarkSyntax bounds the nesting, and so this recursion.
  Result<Fragment> fragment_of(uint32_t index) {
    const LarkNode& node = syntax_.nodes[index];
    switch (node.kind) {
      case LarkKind::kSequence:
      case LarkKind::kAlternatives: {
        std::vector<Fragment> parts;
        for (const uint32_t child : node.children) {
          QUIRE_ASSIGN_OR_RETURN(const Fragment part, fragment_of(child));
          parts.push_back(part);
        }
        return node.kind == LarkKind::kSequence ? rules_.sequence(parts) : rules_.any_of(parts);
      }
      case LarkKind::kRepeat: {
        QUIRE_ASSIGN_OR_RETURN(const Fragment part, fragment_of(node.children[0]));
        if (node.min == 0 && node.max == kUnbounded) return rules_.star(part);
        if (node.min == 0 && node.max == 1) return rules_.optional(part);
        return rules_.repeat(part, rules_.empty(), node.min, node.max);
      }
      case LarkKind::kJson: {
        auto rule = json_schema_rule(store_, rules_, node.text, json_);
        if (!rule.ok()) return rule.status().with_context(fmt::format("lark: line {}", node.line));
        const Fragment parts[] = {rules_.terminal(skip_), rules_.call(*rule)};
        return rules_.sequence(parts);
      }
      case LarkKind::kName:
        if (const auto rule = rule_of_.find(node.text); rule != rule_of_.end()) {
          return rules_.call(rule->second);
        }
        break;
      default:
        break;
    }
    QUIRE_ASSIGN_OR_RETURN(const ExprId expr, expr_of(index));
    return lexeme(expr);
  }

  Result<ExprId> expr_of(uint32_t index) {
    const LarkNode& node = syntax_.nodes[index];
    std::vector<ExprId> parts;
    for (const uint32_t child : node.children) {
      QUIRE_ASSIGN_OR_RETURN(const ExprId part, expr_of(child));
      parts.push_back(part);
    }
    switch (node.kind) {
      case LarkKind::kSequence:
        return store_.concat(parts);
      case LarkKind::kAlternatives:
        return store_.any_of(std::move(parts));
      case LarkKind::kAnd:
        return store_.all_of(std::move(parts));
      case LarkKind::kNot:
        return store_.all_of({encoder_.any_text(), store_.complement(parts[0])});
      case LarkKind::kRepeat:
        return store_.repeat(parts[0], node.min, node.max);
      case LarkKind::kString:
      case LarkKind::kRegex: {
        auto expr = regex_expr(encoder_, node.text, {.ignore_case = node.ignores_case});
        if (!expr.ok()) return expr.status().with_context(fmt::format("lark: line {}", node.line));
        return *expr;
      }
      case LarkKind::kRange: {
        CharSet set;
        set.add({node.min, node.max});
        return encoder_.chars(set);
      }
      case LarkKind::kSpecial: {
        const auto known = std::find(special_tokens_.begin(), special_tokens_.end(), node.text);
        if (known == special_tokens_.end()) {
          return error(node, "the vocabulary has no special token '" + node.text + "'");
        }
        return store_.literal(kSpecialTokenMark + node.text);
      }
      case LarkKind::kJson:
        return error(node, "%json is a part of rules, not of terminals");
      case LarkKind::kName:
        return terminal(node);
    }
    return internal_error("lark: an unknown part");
  }

  Result<ExprId> terminal(const LarkNode& node) {
    if (const auto known = terminals_.find(node.text); known != terminals_.end()) {
      if (!known->second) return error(node, "the terminal " + node.text + " refers to itself");
      return *known->second;
    }
    if (const auto common = syntax_.imports.find(node.text); common != syntax_.imports.end()) {
      for (const CommonTerminal& terminal : kCommonTerminals) {
        if (terminal.name == common->second) return regex_expr(encoder_, terminal.pattern);
      }
      return error(node, "common has no terminal " + common->second);
    }
    const auto definition = syntax_.definitions.find(node.text);
    if (definition == syntax_.definitions.end() || !is_terminal_name(node.text)) {
      return error(node, "'" + node.text + "' is not defined as a terminal");
    }
    constexpr size_t kMaxOpen = 100;  // bounds recursion
    if (++num_open_ > kMaxOpen) return error(node, "terminals refer to each other too deeply");
    terminals_[node.text] = std::nullopt;
    QUIRE_ASSIGN_OR_RETURN(const ExprId expr, expr_of(definition->second));
    terminals_[node.text] = expr;
    --num_open_;
    return expr;
  }

  ExprStore& store_;
  Rules& rules_;
  const LarkSyntax& syntax_;
  const JsonOptions& json_;
  const std::vector<std::string>& special_tokens_;
  Encoder encoder_;
  ExprId skip_ = ExprStore::kEmpty;
  std::map<std::string, RuleId> rule_of_;
  // Nullopt while the terminal is being built.
  std::map<std::string, std::optional<ExprId>> terminals_;
  size_t num_open_ = 0;
};

}  // namespace

Result<RuleId> lark_rule(ExprStore& store, Rules& rules, std::string_view text,
                         const JsonOptions& json, const std::vector<std::string>& special_tokens) {
  QUIRE_ASSIGN_OR_RETURN(const LarkSyntax syntax, parse_lark(text));
  return LarkBuilder(store, rules, syntax, json, special_tokens).build();
}

}  // namespace quire::grammar
