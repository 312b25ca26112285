#include "grammar/json_schema/json_schema.h"

#include <algorithm>
#include <set>

#include "grammar/json_schema/normalizer.h"

namespace quire::grammar {
namespace {

constexpr size_t kMaxRules = 20'000;
constexpr size_t kMaxNameClasses = 64;

class SchemaCompiler {
 public:
  SchemaCompiler(ExprStore& store, Rules& rules, const SchemaDocument& document,
                 Whitespace whitespace)
      : store_(store), rules_(rules), normalizer_(store, document), gap_(gap(whitespace)) {}

  Result<RuleId> compile() {
    Conjunction root;
    add_to(root, {&normalizer_.document().root()});
    const RuleId rule = rule_of(root);
    while (!pending_.empty()) {
      const auto [next, conjunction] = pending_.back();
      pending_.pop_back();
      QUIRE_ASSIGN_OR_RETURN(const Fragment body, value(conjunction));
      rules_.define(next, body);
      if (rules_.num_rules() > kMaxRules) {
        return invalid_argument("grammar budget: a schema has more than {} parts", kMaxRules);
      }
      QUIRE_RETURN_IF_ERROR(store_.status());
    }
    return rule;
  }

 private:
  ExprId gap(Whitespace whitespace) {
    if (whitespace == Whitespace::kCompact) return ExprStore::kEmpty;
    constexpr uint32_t kMaxBlanks = 8, kMaxIndent = 64;
    const ExprId blank = store_.bytes(ByteSet().set(' ').set('\t'));
    const ExprId newline[] = {store_.optional(store_.byte('\r')), store_.byte('\n'),
                              store_.repeat(blank, 0, kMaxIndent)};
    return store_.any_of({store_.repeat(blank, 0, kMaxBlanks), store_.concat(newline)});
  }
  // Punctuation with the gaps around it.
  ExprId spaced(std::initializer_list<ExprId> parts) {
    return store_.concat(std::span(parts.begin(), parts.size()));
  }
  ExprId comma() { return spaced({gap_, store_.byte(','), gap_}); }
  ExprId quoted(ExprId content) { return spaced({store_.byte('"'), content, store_.byte('"')}); }
  // Whether a JSON string has one spelling of `text`.
  static bool is_plain(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) {
      return c >= 0x20 && c < 0x7F && c != '"' && c != '\\' && c != '/';
    });
  }
  ExprId text_of(std::string_view text) {
    return is_plain(text) ? store_.literal(text) : normalizer_.encoder().text(text);
  }

  RuleId rule_of(const Conjunction& conjunction) {
    const auto [it, is_new] = rule_of_.try_emplace(conjunction, 0);
    if (is_new) {
      it->second = rules_.add_rule();
      pending_.emplace_back(it->second, conjunction);
    }
    return it->second;
  }

  // Values without items or members stand in their place; others are rules, which may recurse.
  Result<Fragment> use(const Conjunction& conjunction) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<Record>* records, normalizer_.records(conjunction));
    const bool is_scalar = std::all_of(records->begin(), records->end(), [](const Record& record) {
      return (record.types & (kArrayType | kObjectType)) == 0;
    });
    return is_scalar ? value(conjunction) : Result<Fragment>(rules_.call(rule_of(conjunction)));
  }

  Result<Fragment> value(const Conjunction& conjunction) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<Record>* records, normalizer_.records(conjunction));
    std::vector<Fragment> parts;
    std::vector<ExprId> scalars;
    for (const Record& record : *records) {
      const Status status =
          record.allowed ? add_enum(record, scalars, parts) : add_types(record, scalars, parts);
      if (!status.ok()) {
        return status.with_context(
            conjunction.empty() ? "#"
                                : normalizer_.document().path_of(*conjunction.front().schema));
      }
    }
    if (!scalars.empty()) {
      parts.push_back(rules_.terminal(store_.any_of(std::move(scalars))));
    }
    return parts.empty() ? rules_.nothing() : rules_.any_of(parts);
  }

  Status add_types(const Record& record, std::vector<ExprId>& scalars,
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

  Status add_enum(const Record& record, std::vector<ExprId>& scalars,
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
      } else {
        literals.push_back(value->is_number() ? decimal_of(*value)->to_string()
                                              : json::serialize(*value));
      }
    }
    if (!literals.empty()) scalars.push_back(store_.any_literal(std::move(literals)));
    return {};
  }

  // One value's text, with gaps. The document's depth bounds the recursion.
  ExprId json_text(const json::value& value) {
    if (value.is_string()) return quoted(text_of(value.get_string()));
    if (value.is_number()) {
      const auto decimal = decimal_of(value);
      return store_.literal(decimal ? decimal->to_string() : json::serialize(value));
    }
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

  Fragment punctuation(ExprId expr) { return rules_.terminal(expr); }

  Result<Fragment> array(const Record& record) {
    const auto min = static_cast<uint32_t>(record.num_items.min);
    auto max = static_cast<uint32_t>(record.num_items.max);
    if (record.has_unique_items && max > 1) {
      return invalid_argument("uniqueItems: only supported with maxItems of at most 1");
    }
    size_t num_prefix = 0;
    for (const ArrayItems& items : record.items)
      num_prefix = std::max(num_prefix, items.prefix.size());
    if (!record.contains.empty()) return array_containing(record, num_prefix);
    const Conjunction rest = Normalizer::item(record, num_prefix);
    const bool has_rest = std::none_of(rest.begin(), rest.end(), is_false);
    if (!has_rest) max = std::min(max, static_cast<uint32_t>(num_prefix));
    const ExprId open = spaced({store_.byte('['), gap_});
    const ExprId close = spaced({gap_, store_.byte(']')});
    std::vector<Fragment> forms;
    if (min == 0) forms.push_back(punctuation(spaced({store_.byte('['), gap_, store_.byte(']')})));
    if (max == 0) return forms.empty() ? rules_.nothing() : rules_.any_of(forms);
    if (num_prefix == 0) {
      QUIRE_ASSIGN_OR_RETURN(const Fragment item, use(rest));
      const Fragment items = rules_.repeat(item, punctuation(comma()), std::max(min, 1U), max);
      const Fragment whole[] = {punctuation(open), items, punctuation(close)};
      forms.push_back(rules_.sequence(whole));
      return rules_.any_of(forms);
    }
    // States after 0, 1, ... items of the prefix; each may close once there are enough.
    const Fragment whole = rules_.nothing();
    StateId at = whole.start;
    const StateId closing = rules_.add_state();
    rules_.add_edge(closing, {EdgeKind::kTerminal, whole.end, close});
    const auto last = std::min<size_t>(num_prefix, max);
    for (size_t i = 0; i < last; ++i) {
      QUIRE_ASSIGN_OR_RETURN(const Fragment item, use(Normalizer::item(record, i)));
      rules_.add_edge(at, {EdgeKind::kTerminal, item.start, i == 0 ? open : comma()});
      at = item.end;
      if (i + 1 >= min) rules_.add_edge(at, {.target = closing});
    }
    if (max > num_prefix) {
      QUIRE_ASSIGN_OR_RETURN(const Fragment item, use(rest));
      const Fragment more[] = {punctuation(comma()), item};
      const auto used = static_cast<uint32_t>(num_prefix);
      const Fragment tail =
          rules_.repeat(rules_.sequence(more), rules_.empty(), std::max(min, used + 1) - used,
                        max == kUnbounded ? kUnbounded : max - used);
      rules_.add_edge(at, {.target = tail.start});
      rules_.add_edge(tail.end, {.target = closing});
    }
    forms.push_back(whole);
    return rules_.any_of(forms);
  }

  // Items that need not match, around `contains.min` that do.
  Result<Fragment> array_containing(const Record& record, size_t num_prefix) {
    const Contains& contains = record.contains.front();
    const bool is_plain = record.contains.size() == 1 && num_prefix == 0 &&
                          record.num_items.max == kUnbounded &&
                          record.num_items.min <= contains.min && contains.min <= 64;
    if (!is_plain) {
      return invalid_argument(
          "contains: not supported with prefixItems, maxItems, a minItems "
          "above minContains, or a second contains");
    }
    const Conjunction any = Normalizer::item(record, 0);
    Conjunction match = any;
    add_to(match, contains.schema);
    QUIRE_ASSIGN_OR_RETURN(const Fragment first, use(any));
    const Fragment before[] = {first, punctuation(comma())};
    std::vector<Fragment> parts{punctuation(spaced({store_.byte('['), gap_})),
                                rules_.star(rules_.sequence(before))};
    for (uint64_t i = 0; i < contains.min; ++i) {
      QUIRE_ASSIGN_OR_RETURN(const Fragment hit, use(match));
      QUIRE_ASSIGN_OR_RETURN(const Fragment other, use(any));
      if (i > 0) parts.push_back(punctuation(comma()));
      parts.push_back(hit);
      const Fragment after[] = {punctuation(comma()), other};
      parts.push_back(rules_.star(rules_.sequence(after)));
    }
    parts.push_back(punctuation(spaced({gap_, store_.byte(']')})));
    return rules_.sequence(parts);
  }

  static bool is_false(const SchemaRef& ref) {
    return ref.schema->is_bool() && ref.schema->get_bool() == ref.is_negated;
  }

  struct Member {
    std::string name;
    Conjunction schema;
    bool is_required = false;
  };
  struct NameClass {  // other names that have one schema
    ExprId name = 0;
    Conjunction schema;
  };
  struct ObjectPlan {
    std::vector<Member> members;
    std::vector<NameClass> others;
  };

  Result<ObjectPlan> plan(const Record& record) {
    ObjectPlan out;
    std::vector<std::string> names;
    std::set<std::string> seen;
    for (const MemberRules& rules : record.members) {
      for (const auto& [name, schema] : rules.properties) {
        if (seen.insert(name).second) names.push_back(name);
      }
    }
    for (const std::string& name : record.required) {
      if (seen.insert(name).second) names.push_back(name);
    }
    const std::set<std::string> required(record.required.begin(), record.required.end());
    for (const std::string& name : names) {
      Member member{name, {}, required.contains(name)};
      QUIRE_ASSIGN_OR_RETURN(member.schema, normalizer_.member(record, name));
      const bool is_impossible = std::any_of(member.schema.begin(), member.schema.end(), is_false);
      if (!is_impossible || member.is_required) out.members.push_back(std::move(member));
    }
    QUIRE_ASSIGN_OR_RETURN(out.others, name_classes(record, names));
    return out;
  }

  // Splits the names that are no properties by the patterns that they match.
  Result<std::vector<NameClass>> name_classes(const Record& record,
                                              const std::vector<std::string>& known) {
    std::vector<ExprId> taken;
    std::vector<std::string> plain;
    for (const std::string& name : known) {
      if (is_plain(name)) {
        plain.push_back(name);
      } else {
        taken.push_back(text_of(name));
      }
    }
    if (!plain.empty()) taken.push_back(store_.any_literal(std::move(plain)));
    std::vector<ExprId> parts{normalizer_.encoder().any_text()};
    if (!taken.empty()) parts.push_back(store_.complement(store_.any_of(std::move(taken))));
    for (const SchemaRef& names : record.names) {
      Conjunction rule;
      add_to(rule, names);
      QUIRE_ASSIGN_OR_RETURN(const std::vector<Record>* records, normalizer_.records(rule));
      std::vector<ExprId> allowed;
      for (const Record& name : *records) {
        if ((name.types & kStringType) == 0) continue;
        if (!name.allowed) {
          allowed.push_back(normalizer_.string_content(name));
          continue;
        }
        for (const json::value* value : *name.allowed) {
          QUIRE_ASSIGN_OR_RETURN(const bool fits, normalizer_.admits(name, *value));
          if (fits && value->is_string()) allowed.push_back(text_of(value->get_string()));
        }
      }
      parts.push_back(store_.any_of(std::move(allowed)));
    }
    std::vector<NameClass> classes{{store_.all_of(std::move(parts)), {}}};
    for (const MemberRules& rules : record.members) {
      std::vector<std::pair<NameClass, bool>> split;  // and whether a pattern matched
      for (NameClass& name_class : classes) split.emplace_back(std::move(name_class), false);
      for (const auto& [pattern, schema] : rules.patterns) {
        std::vector<std::pair<NameClass, bool>> next;
        for (const auto& [name_class, is_known] : split) {
          NameClass in = name_class, out = name_class;
          in.name = store_.all_of({in.name, pattern});
          out.name = store_.all_of({out.name, store_.complement(pattern)});
          add_to(in.schema, schema);
          if (store_.is_live(in.name)) next.emplace_back(std::move(in), true);
          if (store_.is_live(out.name)) next.emplace_back(std::move(out), is_known);
        }
        split = std::move(next);
        if (split.size() > kMaxNameClasses) {
          return invalid_argument("patternProperties: more than {} combinations of patterns",
                                  kMaxNameClasses);
        }
      }
      classes.clear();
      for (auto& [name_class, is_known] : split) {
        if (!is_known && rules.additional) add_to(name_class.schema, *rules.additional);
        classes.push_back(std::move(name_class));
      }
    }
    std::erase_if(classes, [&](const NameClass& name_class) {
      return std::any_of(name_class.schema.begin(), name_class.schema.end(), is_false) ||
             !store_.is_live(name_class.name);
    });
    return classes;
  }

  Result<Fragment> object(const Record& record) {
    QUIRE_ASSIGN_OR_RETURN(const ObjectPlan object, plan(record));
    const CountRange& count = record.num_members;
    uint64_t num_required = 0;
    for (const Member& member : object.members) num_required += member.is_required;
    const bool counts = count.min > num_required || count.max != kUnbounded;
    if (counts && count.max == 0) {
      if (num_required > 0) return rules_.nothing();
      return rules_.terminal(spaced({store_.byte('{'), gap_, store_.byte('}')}));
    }
    if (!counts) return members(object, std::nullopt, rules_.nothing());
    const RuleId rule = rules_.add_rule();
    const auto cap = count.max == kUnbounded ? count.min : count.max;
    rules_.set_count_cap(rule, static_cast<uint32_t>(std::max<uint64_t>(cap, 1)));
    QUIRE_ASSIGN_OR_RETURN(const Fragment body, members(object, count, rules_.nothing()));
    rules_.define(rule, body);
    return rules_.call(rule);
  }

  // Two rows of states over the members in order: before the first member that is written, and
  // after it, where a comma is needed. With `count`, the call counts members, and guards keep it
  // from where the minimum or maximum could no longer be met.
  Result<Fragment> members(const ObjectPlan& object, const std::optional<CountRange>& count,
                           Fragment whole) {
    const ExprId open = spaced({store_.byte('{'), gap_});
    const ExprId colon = spaced({gap_, store_.byte(':'), gap_});
    const size_t num_members = object.members.size();
    uint64_t required_left = 0;
    for (const Member& member : object.members) required_left += member.is_required;
    StateId before = whole.start, after = rules_.add_state();
    const auto limit = [](uint64_t value) {
      return static_cast<uint32_t>(std::min<uint64_t>(value, kUnbounded));
    };
    // A member from `from`, whose name is read by `key`, to the state `to`.
    const auto write = [&](StateId from, ExprId key, StateId to, uint64_t needed_later) {
      if (!count) {
        rules_.add_edge(from, {EdgeKind::kTerminal, to, key});
        return;
      }
      if (count->max < needed_later + 1) return;
      const StateId counted = rules_.add_state();
      const uint32_t last =
          count->max == kUnbounded ? kUnbounded : limit(count->max - needed_later - 1);
      rules_.add_edge(from, {EdgeKind::kCount, counted, 0, 0, last});
      rules_.add_edge(counted, {EdgeKind::kTerminal, to, key});
    };
    for (size_t i = 0; i < num_members; ++i) {
      const Member& member = object.members[i];
      required_left -= member.is_required;
      const ExprId key = spaced({quoted(text_of(member.name)), colon});
      QUIRE_ASSIGN_OR_RETURN(const Fragment value, use(member.schema));
      const StateId next_before = rules_.add_state(), next_after = rules_.add_state();
      write(before, spaced({open, key}), value.start, required_left);
      write(after, spaced({comma(), key}), value.start, required_left);
      rules_.add_edge(value.end, {.target = next_after});
      if (!member.is_required) {
        Edge skip{.target = next_before};
        if (count && object.others.empty()) {
          const uint64_t left = num_members - i - 1;
          skip.kind = EdgeKind::kGuard;
          skip.min = limit(count->min > left ? count->min - left : 0);
        }
        rules_.add_edge(before, skip);
        skip.target = next_after;
        rules_.add_edge(after, skip);
      }
      before = next_before;
      after = next_after;
    }
    for (const NameClass& name_class : object.others) {
      const ExprId key = spaced({quoted(name_class.name), colon});
      QUIRE_ASSIGN_OR_RETURN(const Fragment value, use(name_class.schema));
      const Fragment name = rules_.terminal(key);
      write(before, open, name.start, 0);
      write(after, comma(), name.start, 0);
      rules_.add_edge(name.end, {.target = value.start});
      rules_.add_edge(value.end, {.target = after});
    }
    const StateId can_close_empty = rules_.add_state(), can_close = rules_.add_state();
    const Edge enough{EdgeKind::kGuard, 0, 0, count ? limit(count->min) : 0, kUnbounded};
    for (const auto& [from, to] :
         {std::pair(before, can_close_empty), std::pair(after, can_close)}) {
      Edge edge = count ? enough : Edge{};
      edge.target = to;
      rules_.add_edge(from, edge);
    }
    const ExprId close = spaced({gap_, store_.byte('}')});
    rules_.add_edge(can_close, {EdgeKind::kTerminal, whole.end, close});
    rules_.add_edge(can_close_empty,
                    {EdgeKind::kTerminal, whole.end, spaced({open, store_.byte('}')})});
    return whole;
  }

  ExprStore& store_;
  Rules& rules_;
  Normalizer normalizer_;
  ExprId gap_;
  std::map<Conjunction, RuleId> rule_of_;
  std::vector<std::pair<RuleId, Conjunction>> pending_;
};

}  // namespace

Result<RuleId> json_schema_rule(ExprStore& store, Rules& rules, std::string_view schema_text,
                                Whitespace whitespace) {
  QUIRE_ASSIGN_OR_RETURN(const SchemaDocument document, SchemaDocument::parse(schema_text));
  return SchemaCompiler(store, rules, document, whitespace).compile();
}

}  // namespace quire::grammar
