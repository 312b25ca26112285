// These functions turn arrays into rules: items by position, counted, all different, or with some
// that match `contains`.
#include <algorithm>

#include "grammar/json_schema/schema_compiler.h"

namespace quire::grammar {
namespace {

constexpr uint64_t kMaxContained = 64;

uint32_t limit(uint64_t count) {
  return static_cast<uint32_t>(std::min<uint64_t>(count, kUnbounded));
}

}  // namespace

Result<Fragment> SchemaCompiler::array(const Record& record) {
  const auto min = static_cast<uint32_t>(record.num_items.min);
  auto max = static_cast<uint32_t>(record.num_items.max);
  size_t num_prefix = 0;
  for (const ArrayItems& items : record.items)
    num_prefix = std::max(num_prefix, items.prefix.size());
  if (record.has_unique_items && max > 1) return unique_array(record, num_prefix);
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
  // Makes states for 0, 1, … items of the prefix; the array may end at those with enough items.
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

// Returns the values of a schema as expressions, or nullopt if there are infinitely or too many.
Result<std::optional<std::vector<ExprId>>> SchemaCompiler::finite_values(
    const Conjunction& conjunction) {
  static const json::value kConstants[] = {json::value(nullptr), json::value(false),
                                           json::value(true)};
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Record>* records, normalizer_.records(conjunction));
  std::vector<const json::value*> values;
  for (const Record& record : *records) {
    const bool is_open = (record.types & ~(kNull | kFalse | kTrue)) != 0;
    if (!record.allowed && is_open) return std::optional<std::vector<ExprId>>();
    std::vector<const json::value*> candidates;
    if (record.allowed) candidates = *record.allowed;
    for (const json::value& constant : kConstants) {
      if (!record.allowed) candidates.push_back(&constant);
    }
    for (const json::value* value : candidates) {
      QUIRE_ASSIGN_OR_RETURN(const bool fits, normalizer_.admits(record, *value));
      const bool is_known =
          std::any_of(values.begin(), values.end(),
                      [&](const json::value* other) { return equal_values(*other, *value); });
      if (fits && !is_known) values.push_back(value);
    }
  }
  if (values.size() > kMaxMarks) return std::optional<std::vector<ExprId>>();
  std::vector<ExprId> out;
  out.reserve(values.size());
  for (const json::value* value : values) out.push_back(json_text(*value));
  return std::optional(std::move(out));
}

// Each value sets a bit of the call's count. A comma is allowed only if a value is left.
Result<Fragment> SchemaCompiler::unique_array(const Record& record, size_t num_prefix) {
  const Conjunction item = Normalizer::item(record, 0);
  std::optional<std::vector<ExprId>> values;
  if (num_prefix == 0 && record.contains.empty()) {
    QUIRE_ASSIGN_OR_RETURN(values, finite_values(item));
  }
  if (!values) {
    return invalid_argument(
        "uniqueItems: only supported where the items are one of at most {} values, or maxItems is "
        "at most 1",
        kMaxMarks);
  }
  const uint64_t max = std::min<uint64_t>(record.num_items.max, values->size());
  const auto min = limit(record.num_items.min);
  std::vector<Fragment> forms;
  if (min == 0) {
    forms.push_back(punctuation(spaced({store_.byte('['), gap_, store_.byte(']')})));
  }
  if (min > max || max == 0) return forms.empty() ? rules_.nothing() : forms.front();
  const RuleId rule = rules_.add_rule();
  rules_.set_count_cap(rule, kUnbounded);
  const Fragment body = rules_.nothing();
  const StateId next = rules_.add_state(), after = rules_.add_state();
  const StateId closing = rules_.add_state(), more = rules_.add_state();
  rules_.add_edge(body.start, {EdgeKind::kTerminal, next, spaced({store_.byte('['), gap_})});
  for (uint32_t i = 0; i < values->size(); ++i) {
    const StateId marked = rules_.add_state();
    rules_.add_edge(next, {EdgeKind::kMark, marked, i, 0, limit(max - 1)});
    rules_.add_edge(marked, {EdgeKind::kTerminal, after, (*values)[i]});
  }
  rules_.add_edge(after, {EdgeKind::kMarked, closing, 0, min, kUnbounded});
  rules_.add_edge(after, {EdgeKind::kMarked, more, 0, 0, limit(max - 1)});
  rules_.add_edge(more, {EdgeKind::kTerminal, next, comma()});
  rules_.add_edge(closing, {EdgeKind::kTerminal, body.end, spaced({gap_, store_.byte(']')})});
  rules_.define(rule, body);
  forms.push_back(rules_.call(rule));
  return rules_.any_of(forms);
}

// States count the items that match, and the call's count counts all items. Without a maximum, an
// item that matches may also be read as one that does not.
Result<Fragment> SchemaCompiler::array_containing(const Record& record, size_t num_prefix) {
  const Contains& contains = record.contains.front();
  const CountRange& total = record.num_items;
  const bool has_max = contains.max != kUnbounded;
  if (record.contains.size() > 1 || num_prefix > 0) {
    return invalid_argument("contains: not supported with prefixItems or a second contains");
  }
  if (contains.min > kMaxContained || (has_max && contains.max > kMaxContained)) {
    return invalid_argument("contains: expected minContains and maxContains of at most {}",
                            kMaxContained);
  }
  const Conjunction any = Normalizer::item(record, 0);
  Conjunction match = any, other = any;
  add_to(match, contains.schema);
  if (has_max) add_to(other, {contains.schema.schema, !contains.schema.is_negated});
  const uint64_t num_rows = (has_max ? contains.max : contains.min) + 1;
  std::vector<Fragment> forms;
  if (contains.min == 0 && total.min == 0) {
    forms.push_back(punctuation(spaced({store_.byte('['), gap_, store_.byte(']')})));
  }
  const RuleId rule = rules_.add_rule();
  const uint64_t cap = total.max == kUnbounded ? total.min : total.max;
  rules_.set_count_cap(rule, limit(std::max<uint64_t>(cap, 1)));
  const Fragment body = rules_.nothing();
  const StateId closing = rules_.add_state();
  rules_.add_edge(closing, {EdgeKind::kTerminal, body.end, spaced({gap_, store_.byte(']')})});
  std::vector<StateId> next, after;  // by the number of matches: before an item, and behind one
  for (uint64_t i = 0; i < num_rows; ++i) {
    next.push_back(rules_.add_state());
    after.push_back(rules_.add_state());
  }
  rules_.add_edge(body.start, {EdgeKind::kTerminal, next[0], spaced({store_.byte('['), gap_})});
  // Adds an item of `schema` from one row to another, if enough items are left for the missing
  // matches.
  const auto write = [&](uint64_t from, uint64_t to, const Conjunction& schema) -> Status {
    const uint64_t missing = contains.min > to ? contains.min - to : 0;
    if (total.max != kUnbounded && total.max < missing + 1) return {};
    const uint32_t last = total.max == kUnbounded ? kUnbounded : limit(total.max - missing - 1);
    QUIRE_ASSIGN_OR_RETURN(const Fragment item, use(schema));
    rules_.add_edge(next[from], {EdgeKind::kCount, item.start, 0, 0, last});
    rules_.add_edge(item.end, {.target = after[to]});
    return {};
  };
  for (uint64_t i = 0; i < num_rows; ++i) {
    QUIRE_RETURN_IF_ERROR(write(i, i, other));
    if (i + 1 < num_rows) QUIRE_RETURN_IF_ERROR(write(i, i + 1, match));
    if (i >= contains.min) {
      rules_.add_edge(after[i], {EdgeKind::kGuard, closing, 0, limit(total.min), kUnbounded});
    }
    const StateId more = rules_.add_state();
    const uint32_t last = total.max == kUnbounded ? kUnbounded : limit(total.max - 1);
    if (total.max > 0) rules_.add_edge(after[i], {EdgeKind::kGuard, more, 0, 0, last});
    rules_.add_edge(more, {EdgeKind::kTerminal, next[i], comma()});
  }
  rules_.define(rule, body);
  forms.push_back(rules_.call(rule));
  return rules_.any_of(forms);
}

}  // namespace quire::grammar
