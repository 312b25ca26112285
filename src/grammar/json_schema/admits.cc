// These functions of Normalizer look at values and at pairs of records.
#include <algorithm>

#include "grammar/json_schema/normalizer.h"

namespace quire::grammar {

Conjunction Normalizer::item(const Record& record, size_t index) {
  Conjunction out;
  for (const ArrayItems& items : record.items) {
    if (index < items.prefix.size()) {
      add_to(out, items.prefix[index]);
    } else if (items.rest) {
      add_to(out, *items.rest);
    }
  }
  return out;
}

Result<Conjunction> Normalizer::member(const Record& record, std::string_view name) {
  Conjunction out;
  const std::string escaped = json_escaped(name);
  for (const MemberRules& rules : record.members) {
    bool is_known = false;
    for (const auto& [property, schema] : rules.properties) {
      if (property != name) continue;
      is_known = true;
      add_to(out, schema);
    }
    for (const auto& [pattern, schema] : rules.patterns) {
      if (!store_.matches(pattern, escaped)) continue;
      is_known = true;
      add_to(out, schema);
    }
    if (!is_known && rules.additional) add_to(out, *rules.additional);
  }
  for (const SchemaRef& names : record.names) {
    Conjunction rule;
    add_to(rule, names);
    QUIRE_ASSIGN_OR_RETURN(const bool fits, admits(rule, json::value(json::string(name))));
    if (!fits) add_to(out, {&false_schema()});
  }
  return out;
}

ExprId Normalizer::string_content(const Record& record) {
  std::vector<ExprId> parts = record.patterns;
  const CountRange& length = record.length;
  if (parts.empty() || length.min > 0 || length.max != kUnbounded) {
    parts.push_back(store_.repeat(encoder_.any_char(), static_cast<uint32_t>(length.min),
                                  static_cast<uint32_t>(length.max)));
  }
  std::vector<ExprId> excluded;
  for (const json::value* value : record.excluded) {
    if (value->is_string()) excluded.push_back(encoder_.text(value->get_string()));
  }
  // Complements also match strings that cannot occur in a JSON string.
  const bool may_leave_text =
      !excluded.empty() || std::any_of(parts.begin(), parts.end(), [&](ExprId part) {
        return store_.kind(part) == ExprKind::kNot;
      });
  if (!excluded.empty()) parts.push_back(store_.complement(store_.any_of(std::move(excluded))));
  if (may_leave_text) parts.push_back(encoder_.any_text());
  return store_.all_of(std::move(parts));
}

Result<bool> Normalizer::admits(const Conjunction& conjunction, const json::value& value) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Record>* records, records(conjunction));
  for (const Record& record : *records) {
    QUIRE_ASSIGN_OR_RETURN(const bool fits, admits(record, value));
    if (fits) return true;
  }
  return false;
}

Result<bool> Normalizer::admits(const Record& record, const json::value& value) {
  const auto is_value = [&](const json::value* other) { return equal_values(*other, value); };
  if ((record.types & type_of(value)) == 0) return false;
  if (record.allowed && std::none_of(record.allowed->begin(), record.allowed->end(), is_value)) {
    return false;
  }
  if (std::any_of(record.excluded.begin(), record.excluded.end(), is_value)) return false;
  if (value.is_string()) {
    return store_.matches(string_content(record), json_escaped(value.get_string()));
  }
  if (value.is_number()) {
    const auto number = decimal_of(value);
    if (!number) return invalid_argument("a number that is too long");
    QUIRE_ASSIGN_OR_RETURN(const ExprId expr, number_expr(store_, record.number));
    return store_.matches(expr, number->to_string());
  }
  if (const json::array* array = value.if_array()) {
    if (array->size() < record.num_items.min || array->size() > record.num_items.max) return false;
    for (size_t i = 0; i < array->size(); ++i) {
      QUIRE_ASSIGN_OR_RETURN(const bool fits, admits(item(record, i), (*array)[i]));
      if (!fits) return false;
      const bool repeats = std::any_of(array->begin(), array->begin() + i, [&](const auto& other) {
        return equal_values(other, (*array)[i]);
      });
      if (record.has_unique_items && repeats) return false;
    }
    for (const Contains& contains : record.contains) {
      uint64_t count = 0;
      for (const json::value& item : *array) {
        Conjunction rule;
        add_to(rule, contains.schema);
        QUIRE_ASSIGN_OR_RETURN(const bool fits, admits(rule, item));
        count += fits;
      }
      if (count < contains.min || count > contains.max) return false;
    }
  }
  if (const json::object* object = value.if_object()) {
    const uint64_t count = object->size();
    if (count < record.num_members.min || count > record.num_members.max) return false;
    for (const std::string& name : record.required) {
      if (!object->contains(name)) return false;
    }
    for (const auto& [name, child] : *object) {
      QUIRE_ASSIGN_OR_RETURN(const Conjunction rule, member(record, name));
      QUIRE_ASSIGN_OR_RETURN(const bool fits, admits(rule, child));
      if (!fits) return false;
    }
  }
  return true;
}

Result<bool> Normalizer::are_disjoint(const Conjunction& a, const Conjunction& b, int depth) {
  constexpr int kMaxDepth = 3;
  if (depth > kMaxDepth) return false;
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Record>* first, records(a));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Record>* second, records(b));
  if (first->size() * second->size() > 1024) return false;
  for (const Record& x : *first) {
    for (const Record& y : *second) {
      QUIRE_ASSIGN_OR_RETURN(const bool disjoint, are_disjoint(x, y, depth));
      if (!disjoint) return false;
    }
  }
  return true;
}

Result<bool> Normalizer::are_disjoint(const Record& a, const Record& b, int depth) {
  const auto types = static_cast<uint8_t>(a.types & b.types);
  for (const auto& [x, y] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    if (!x->allowed) continue;
    for (const json::value* value : *x->allowed) {
      QUIRE_ASSIGN_OR_RETURN(const bool in_x, admits(*x, *value));
      if (!in_x) continue;
      QUIRE_ASSIGN_OR_RETURN(const bool in_y, admits(*y, *value));
      if (in_y) return false;
    }
    return true;
  }
  if ((types & (kNull | kFalse | kTrue)) != 0) return false;
  if ((types & kStringType) != 0 &&
      store_.is_live(store_.all_of({string_content(a), string_content(b)}))) {
    return false;
  }
  if ((types & kNumberType) != 0) {
    QUIRE_ASSIGN_OR_RETURN(const ExprId x, number_expr(store_, a.number));
    QUIRE_ASSIGN_OR_RETURN(const ExprId y, number_expr(store_, b.number));
    // Expressions of the same numbers may differ (exponents), so only bounds prove that records are
    // disjoint.
    const bool has_bounds = a.number.lower || a.number.upper || !a.number.divisors.empty();
    const bool other_has = b.number.lower || b.number.upper || !b.number.divisors.empty();
    if (!has_bounds || !other_has || store_.is_live(store_.all_of({x, y}))) return false;
    if (a.number.is_integer != b.number.is_integer) return false;
  }
  if ((types & kArrayType) != 0) {
    if (a.num_items.min <= b.num_items.max && b.num_items.min <= a.num_items.max) {
      const uint64_t sure = std::max(a.num_items.min, b.num_items.min);
      bool differs = false;
      for (size_t i = 0; i < std::min<uint64_t>(sure, 4) && !differs; ++i) {
        QUIRE_ASSIGN_OR_RETURN(differs, are_disjoint(item(a, i), item(b, i), depth + 1));
      }
      if (!differs) return false;
    }
  }
  if ((types & kObjectType) != 0) return are_disjoint_objects(a, b, depth);
  return true;
}

// Two objects are disjoint if one requires a member that the other cannot have, or can have only
// with other values.
Result<bool> Normalizer::are_disjoint_objects(const Record& a, const Record& b, int depth) {
  if (a.num_members.min > b.num_members.max || b.num_members.min > a.num_members.max) return true;
  for (const auto& [x, y] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    for (const std::string& name : x->required) {
      QUIRE_ASSIGN_OR_RETURN(const Conjunction in_x, member(*x, name));
      QUIRE_ASSIGN_OR_RETURN(const Conjunction in_y, member(*y, name));
      QUIRE_ASSIGN_OR_RETURN(const bool disjoint, are_disjoint(in_x, in_y, depth + 1));
      if (disjoint) return true;
    }
  }
  return false;
}

}  // namespace quire::grammar
