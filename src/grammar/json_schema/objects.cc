// These functions turn objects into rules: members in the schema's order or in any order, then
// other names.
#include <algorithm>
#include <set>

#include "grammar/json_schema/schema_compiler.h"

namespace quire::grammar {
namespace {

constexpr size_t kMaxNameClasses = 64;

// Returns a count as edges store it.
uint32_t limit(uint64_t value) {
  return static_cast<uint32_t>(std::min<uint64_t>(value, kUnbounded));
}

}  // namespace

Result<SchemaCompiler::ObjectPlan> SchemaCompiler::plan(const Record& record) {
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

// Returns the names that are not in `properties` and that `propertyNames` allows.
Result<ExprId> SchemaCompiler::other_names(const Record& record,
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
  return store_.all_of(std::move(parts));
}

// Splits the names that are not in `properties` by the patterns that they match.
Result<std::vector<SchemaCompiler::NameClass>> SchemaCompiler::name_classes(
    const Record& record, const std::vector<std::string>& known) {
  QUIRE_ASSIGN_OR_RETURN(const ExprId names, other_names(record, known));
  std::vector<NameClass> classes{{names, {}}};
  for (const MemberRules& rules : record.members) {
    std::vector<std::pair<NameClass, bool>> split;  // and whether a pattern matched
    split.reserve(classes.size());
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

Result<Fragment> SchemaCompiler::object(const Record& record) {
  QUIRE_ASSIGN_OR_RETURN(const ObjectPlan object, plan(record));
  const CountRange& count = record.num_members;
  uint64_t num_required = 0;
  for (const Member& member : object.members) num_required += member.is_required;
  const bool counts = count.min > num_required || count.max != kUnbounded;
  if (counts && count.max == 0) {
    if (num_required > 0) return rules_.nothing();
    return rules_.terminal(spaced({store_.byte('{'), gap_, store_.byte('}')}));
  }
  if (!counts && any_order_ && object.members.size() <= kMaxMarks) {
    return any_order_members(object);
  }
  if (!counts) return ordered_members(object);
  const RuleId rule = rules_.add_rule();
  const auto cap = count.max == kUnbounded ? count.min : count.max;
  rules_.set_count_cap(rule, static_cast<uint32_t>(std::max<uint64_t>(cap, 1)));
  QUIRE_ASSIGN_OR_RETURN(const Fragment body, counted_members(object, count));
  rules_.define(rule, body);
  return rules_.call(rule);
}

// Makes states over the members in order: one before each member, and one behind it. The comma is a
// terminal of its own, so that the blanks around it are walked once and not for each name that may
// follow. Commas that nothing can follow are pruned with the rules.
Result<Fragment> SchemaCompiler::ordered_members(const ObjectPlan& object) {
  const ExprId colon = spaced({gap_, store_.byte(':'), gap_});
  const Fragment whole = rules_.nothing();
  const StateId closing = rules_.add_state();
  rules_.add_edge(closing, {EdgeKind::kTerminal, whole.end, spaced({gap_, store_.byte('}')})});
  uint64_t required_left = 0;
  for (const Member& member : object.members) required_left += member.is_required;
  StateId next = rules_.add_state();
  rules_.add_edge(whole.start, {EdgeKind::kTerminal, next, spaced({store_.byte('{'), gap_})});
  if (required_left == 0) {
    const ExprId empty = spaced({store_.byte('{'), gap_, store_.byte('}')});
    rules_.add_edge(whole.start, {EdgeKind::kTerminal, whole.end, empty});
  }
  const auto add_after = [&](StateId after, StateId following) {
    rules_.add_edge(after, {EdgeKind::kTerminal, following, comma()});
    if (required_left == 0) rules_.add_edge(after, {.target = closing});
  };
  for (const Member& member : object.members) {
    required_left -= member.is_required;
    QUIRE_ASSIGN_OR_RETURN(const Fragment value, use(member.schema));
    const ExprId key = spaced({quoted(text_of(member.name)), colon});
    const StateId following = rules_.add_state(), after = rules_.add_state();
    rules_.add_edge(next, {EdgeKind::kTerminal, value.start, key});
    rules_.add_edge(value.end, {.target = after});
    if (!member.is_required) rules_.add_edge(next, {.target = following});
    add_after(after, following);
    next = following;
  }
  const StateId after = rules_.add_state();
  for (const NameClass& name_class : object.others) {
    QUIRE_ASSIGN_OR_RETURN(const Fragment value, use(name_class.schema));
    const ExprId key = spaced({quoted(name_class.name), colon});
    rules_.add_edge(next, {EdgeKind::kTerminal, value.start, key});
    rules_.add_edge(value.end, {.target = after});
  }
  add_after(after, next);
  return whole;
}

// Does the same for objects whose call counts members. There are two rows of states, before the
// first member and after it, with guards that stop the call where the minimum or maximum can no
// longer be met.
Result<Fragment> SchemaCompiler::counted_members(const ObjectPlan& object,
                                                 const CountRange& count) {
  const Fragment whole = rules_.nothing();
  const ExprId open = spaced({store_.byte('{'), gap_});
  const ExprId colon = spaced({gap_, store_.byte(':'), gap_});
  const size_t num_members = object.members.size();
  uint64_t required_left = 0;
  for (const Member& member : object.members) required_left += member.is_required;
  StateId before = whole.start, after = rules_.add_state();
  // Adds a member from the state `from`, whose name `key` reads, to the state `to`.
  const auto write = [&](StateId from, ExprId key, StateId to, uint64_t needed_later) {
    if (count.max < needed_later + 1) return;
    const StateId counted = rules_.add_state();
    const uint32_t last =
        count.max == kUnbounded ? kUnbounded : limit(count.max - needed_later - 1);
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
      if (object.others.empty()) {
        const uint64_t left = num_members - i - 1;
        skip.kind = EdgeKind::kGuard;
        skip.min = limit(count.min > left ? count.min - left : 0);
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
  const auto close = [&](StateId from, ExprId text) {
    const StateId enough = rules_.add_state();
    rules_.add_edge(from, {EdgeKind::kGuard, enough, 0, limit(count.min), kUnbounded});
    rules_.add_edge(enough, {EdgeKind::kTerminal, whole.end, text});
  };
  close(before, spaced({open, store_.byte('}')}));
  close(after, spaced({gap_, store_.byte('}')}));
  return whole;
}

// Each named member sets a bit of the call's count. If no other names are allowed, a comma is
// allowed only while a member is left.
Result<Fragment> SchemaCompiler::any_order_members(const ObjectPlan& object) {
  const auto num_members = static_cast<uint32_t>(object.members.size());
  const ExprId colon = spaced({gap_, store_.byte(':'), gap_});
  const ExprId close = spaced({gap_, store_.byte('}')});
  const RuleId rule = rules_.add_rule();
  rules_.set_count_cap(rule, kUnbounded);
  const Fragment body = rules_.nothing();
  const StateId next = rules_.add_state(), after = rules_.add_state();
  const StateId closing = rules_.add_state(), more = rules_.add_state();
  rules_.add_edge(body.start, {EdgeKind::kTerminal, next, spaced({store_.byte('{'), gap_})});
  Count required = 0;
  for (uint32_t i = 0; i < num_members; ++i) {
    const Member& member = object.members[i];
    if (member.is_required) required |= Count{1} << i;
    QUIRE_ASSIGN_OR_RETURN(const Fragment value, use(member.schema));
    const StateId marked = rules_.add_state();
    rules_.add_edge(next, {EdgeKind::kMark, marked, i});
    const ExprId key = spaced({quoted(text_of(member.name)), colon});
    rules_.add_edge(marked, {EdgeKind::kTerminal, value.start, key});
    rules_.add_edge(value.end, {.target = after});
  }
  for (const NameClass& name_class : object.others) {
    QUIRE_ASSIGN_OR_RETURN(const Fragment value, use(name_class.schema));
    const ExprId key = spaced({quoted(name_class.name), colon});
    rules_.add_edge(next, {EdgeKind::kTerminal, value.start, key});
    rules_.add_edge(value.end, {.target = after});
  }
  const uint32_t last = object.others.empty() ? std::max(num_members, 1u) - 1 : kUnbounded;
  rules_.add_edge(after, {.kind = EdgeKind::kMarked, .target = closing, .marks = required});
  rules_.add_edge(after, {EdgeKind::kMarked, more, 0, 0, last});
  rules_.add_edge(more, {EdgeKind::kTerminal, next, comma()});
  rules_.add_edge(closing, {EdgeKind::kTerminal, body.end, close});
  rules_.define(rule, body);
  if (required != 0) return rules_.call(rule);
  const ExprId empty = spaced({store_.byte('{'), gap_, store_.byte('}')});
  const Fragment forms[] = {rules_.terminal(empty), rules_.call(rule)};
  return rules_.any_of(forms);
}

}  // namespace quire::grammar
