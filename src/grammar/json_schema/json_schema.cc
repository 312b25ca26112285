#include "grammar/json_schema/json_schema.h"

#include <algorithm>

#include "grammar/json_schema/schema_compiler.h"
#include "grammar/read/regex.h"
#include "grammar/rules/budget.h"

namespace quire::grammar {
namespace {

constexpr size_t kMaxRules = 20'000;

Result<ExprId> gap_of(ExprStore& store, const JsonOptions& options) {
  if (options.whitespace == Whitespace::kCompact) return ExprStore::kEmpty;
  if (options.whitespace == Whitespace::kPattern) {
    Encoder encoder(store, TextForm::kPlain);
    auto gap = regex_expr(encoder, options.whitespace_pattern);
    if (!gap.ok()) return gap.status().with_context("whitespace_pattern");
    const ExprId blanks = store.star(store.bytes(ByteSet().set(' ').set('\t').set('\n').set('\r')));
    if (store.is_live(store.all_of({*gap, store.complement(blanks)}))) {
      return invalid_argument("whitespace_pattern: expected one that matches blanks only");
    }
    return *gap;
  }
  constexpr uint32_t kMaxBlanks = 8, kMaxIndent = 64;
  const ExprId blank = store.bytes(ByteSet().set(' ').set('\t'));
  const ExprId newline[] = {store.optional(store.byte('\r')), store.byte('\n'),
                            store.repeat(blank, 0, kMaxIndent)};
  return store.any_of({store.repeat(blank, 0, kMaxBlanks), store.concat(newline)});
}

// Returns a number's texts; a whole number is also allowed with ".0", as many writers of floats
// print it.
std::vector<std::string> number_texts(const json::value& value) {
  const auto decimal = decimal_of(value);
  if (!decimal) return {json::serialize(value)};
  std::vector<std::string> texts{decimal->to_string()};
  if (decimal->is_integer()) texts.push_back(texts.front() + ".0");
  return texts;
}

}  // namespace

bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return c >= 0x20 && c < 0x7F && c != '"' && c != '\\' && c != '/';
  });
}

bool is_false(const SchemaRef& ref) {
  return ref.schema->is_bool() && ref.schema->get_bool() == ref.is_negated;
}

Result<RuleId> SchemaCompiler::compile() {
  Conjunction root;
  add_to(root, {&normalizer_.document().root()});
  const RuleId rule = rule_of(root);
  while (!pending_.empty()) {
    const auto [next, conjunction] = pending_.back();
    pending_.pop_back();
    QUIRE_ASSIGN_OR_RETURN(const Fragment body, value(conjunction));
    rules_.define(next, body);
    if (rules_.num_rules() > kMaxRules) return over_budget(kMaxRules, "parts of a schema");
    QUIRE_RETURN_IF_ERROR(store_.status());
  }
  return rule;
}

ExprId SchemaCompiler::text_of(std::string_view text) {
  return is_plain(text) ? store_.literal(text) : normalizer_.encoder().text(text);
}

RuleId SchemaCompiler::rule_of(const Conjunction& conjunction) {
  const auto [it, is_new] = rule_of_.try_emplace(conjunction, 0);
  if (is_new) {
    it->second = rules_.add_rule();
    pending_.emplace_back(it->second, conjunction);
  }
  return it->second;
}

Result<Fragment> SchemaCompiler::use(const Conjunction& conjunction) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Record>* records, normalizer_.records(conjunction));
  const bool is_scalar = std::all_of(records->begin(), records->end(), [](const Record& record) {
    return (record.types & (kArrayType | kObjectType)) == 0;
  });
  return is_scalar ? value(conjunction) : Result<Fragment>(rules_.call(rule_of(conjunction)));
}

Result<Fragment> SchemaCompiler::value(const Conjunction& conjunction) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Record>* records, normalizer_.records(conjunction));
  std::vector<Fragment> parts;
  std::vector<ExprId> scalars;
  for (const Record& record : *records) {
    const Status status =
        record.allowed ? add_enum(record, scalars, parts) : add_types(record, scalars, parts);
    if (!status.ok()) {
      return status.with_context(
          conjunction.empty() ? "#" : normalizer_.document().path_of(*conjunction.front().schema));
    }
  }
  if (!scalars.empty()) {
    parts.push_back(rules_.terminal(store_.any_of(std::move(scalars))));
  }
  return parts.empty() ? rules_.nothing() : rules_.any_of(parts);
}

Status SchemaCompiler::add_types(const Record& record, std::vector<ExprId>& scalars,
                                 std::vector<Fragment>& parts) {
  for (const json::value* value : record.excluded) {
    if (!value->is_array() && !value->is_object()) continue;
    Record without = record;
    without.excluded.clear();
    QUIRE_ASSIGN_OR_RETURN(const bool matters, normalizer_.admits(without, *value));
    if (matters) return invalid_argument("not: an array or object that is excluded by value");
  }
  uint8_t types = record.types;
  NumberRange number = record.number;
  for (const json::value* value : record.excluded) {
    const uint8_t type = type_of(*value);
    if ((type & (kNull | kFalse | kTrue)) != 0) types &= static_cast<uint8_t>(~type);
    if (type != kNumberType) continue;
    const auto decimal = decimal_of(*value);
    if (!decimal) return invalid_argument("not: a number that is too long");
    number.excluded.push_back(*decimal);
  }
  if ((types & kNull) != 0) scalars.push_back(store_.literal("null"));
  if ((types & kFalse) != 0) scalars.push_back(store_.literal("false"));
  if ((types & kTrue) != 0) scalars.push_back(store_.literal("true"));
  if ((types & kNumberType) != 0) {
    QUIRE_ASSIGN_OR_RETURN(const ExprId expr, number_expr(store_, number));
    scalars.push_back(expr);
  }
  if ((types & kStringType) != 0) scalars.push_back(quoted(normalizer_.string_content(record)));
  if ((types & kArrayType) != 0) {
    QUIRE_ASSIGN_OR_RETURN(const Fragment part, array(record));
    parts.push_back(part);
  }
  if ((types & kObjectType) != 0) {
    QUIRE_ASSIGN_OR_RETURN(const Fragment part, object(record));
    parts.push_back(part);
  }
  return {};
}

Status SchemaCompiler::add_enum(const Record& record, std::vector<ExprId>& scalars,
                                std::vector<Fragment>& parts) {
  std::vector<std::string> literals;
  for (const json::value* value : *record.allowed) {
    QUIRE_ASSIGN_OR_RETURN(const bool fits, normalizer_.admits(record, *value));
    if (!fits) continue;
    if (value->is_array() || value->is_object()) {
      parts.push_back(rules_.terminal(json_text(*value)));
    } else if (value->is_string()) {
      const std::string_view text(value->get_string());
      const bool is_ascii = std::all_of(text.begin(), text.end(), [](char c) { return c > 0; });
      if (is_ascii) {
        literals.push_back('"' + json_escaped(text) + '"');
      } else {
        scalars.push_back(quoted(text_of(text)));
      }
    } else if (value->is_number()) {
      for (std::string& text : number_texts(*value)) literals.push_back(std::move(text));
    } else {
      literals.push_back(json::serialize(*value));
    }
  }
  if (!literals.empty()) scalars.push_back(store_.any_literal(std::move(literals)));
  return {};
}

// Returns the text of one value, with gaps. The document's depth bounds the recursion.
ExprId SchemaCompiler::json_text(const json::value& value) {
  if (value.is_string()) return quoted(text_of(value.get_string()));
  if (value.is_number()) return store_.any_literal(number_texts(value));
  std::vector<ExprId> parts;
  if (const json::array* array = value.if_array()) {
    for (const json::value& item : *array) {
      parts.push_back(parts.empty() ? spaced({store_.byte('['), gap_}) : comma());
      parts.push_back(json_text(item));
    }
    if (parts.empty()) parts.push_back(store_.byte('['));
    parts.push_back(spaced({gap_, store_.byte(']')}));
  } else if (const json::object* object = value.if_object()) {
    for (const auto& [name, child] : *object) {
      parts.push_back(parts.empty() ? spaced({store_.byte('{'), gap_}) : comma());
      parts.push_back(quoted(text_of(name)));
      parts.push_back(spaced({gap_, store_.byte(':'), gap_, json_text(child)}));
    }
    if (parts.empty()) parts.push_back(store_.byte('{'));
    parts.push_back(spaced({gap_, store_.byte('}')}));
  } else {
    return store_.literal(json::serialize(value));
  }
  return store_.concat(parts);
}

Result<RuleId> json_schema_rule(ExprStore& store, Rules& rules, std::string_view schema_text,
                                const JsonOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const SchemaDocument document, SchemaDocument::parse(schema_text));
  QUIRE_ASSIGN_OR_RETURN(const ExprId gap, gap_of(store, options));
  return SchemaCompiler(store, rules, document, options, gap).compile();
}

}  // namespace quire::grammar
