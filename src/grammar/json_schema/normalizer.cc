#include "grammar/json_schema/normalizer.h"

#include <algorithm>
#include <set>

#include "grammar/json_schema/formats.h"
#include "grammar/json_schema/keywords.h"
#include "grammar/read/regex.h"
#include "grammar/rules/budget.h"

namespace quire::grammar {
namespace {

constexpr size_t kMaxRecords = 512;
constexpr size_t kMaxOpenExpansions = 24;

// Constraining keywords that are not supported. A keyword that is in none of the lists is an
// annotation.
constexpr std::string_view kUnsupported[] = {"unevaluatedProperties", "unevaluatedItems"};

}  // namespace

const json::value& true_schema() {
  static const json::value value(true);
  return value;
}

const json::value& false_schema() {
  static const json::value value(false);
  return value;
}

std::optional<Decimal> decimal_of(const json::value& number) {
  if (number.is_double()) return Decimal::parse(fmt::format("{}", number.get_double()));
  return Decimal::parse(json::serialize(number));
}

uint8_t type_of(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return kNull;
    case json::kind::bool_:
      return value.get_bool() ? kTrue : kFalse;
    case json::kind::string:
      return kStringType;
    case json::kind::array:
      return kArrayType;
    case json::kind::object:
      return kObjectType;
    default:
      return kNumberType;
  }
}

bool equal_values(const json::value& a, const json::value& b) {
  if (type_of(a) != type_of(b)) return false;
  if (a.is_number()) return decimal_of(a) == decimal_of(b);
  if (a.is_array()) {
    const json::array &x = a.get_array(), &y = b.get_array();
    return x.size() == y.size() && std::equal(x.begin(), x.end(), y.begin(), equal_values);
  }
  if (a.is_object()) {
    const json::object &x = a.get_object(), &y = b.get_object();
    return x.size() == y.size() && std::all_of(x.begin(), x.end(), [&](const auto& member) {
             const json::value* other = y.if_contains(member.key());
             return other != nullptr && equal_values(member.value(), *other);
           });
  }
  return a == b;
}

void add_to(Conjunction& conjunction, const SchemaRef& ref) {
  const bool truth = ref.schema->is_bool() && ref.schema->get_bool() != ref.is_negated;
  if (truth || (!ref.is_negated && is_trivial(*ref.schema))) return;
  const auto at = std::lower_bound(conjunction.begin(), conjunction.end(), ref);
  if (at == conjunction.end() || *at != ref) conjunction.insert(at, ref);
}

Result<ExprId> Normalizer::pattern(std::string_view text) {
  if (const auto known = patterns_.find(text); known != patterns_.end()) return known->second;
  QUIRE_ASSIGN_OR_RETURN(const ExprId expr,
                         regex_expr(encoder_, text, {.match = RegexMatch::kSearch}));
  patterns_.emplace(text, expr);
  return expr;
}

std::optional<ExprId> Normalizer::format(std::string_view name) {
  const auto text = format_pattern(name);
  if (!text) return std::nullopt;
  const std::string key = "format " + std::string(name);
  const auto known = patterns_.find(key);
  if (known != patterns_.end()) return known->second;
  const auto expr = regex_expr(encoder_, *text);
  QUIRE_CHECK(expr.ok(), "format {}: {}", name, expr.status().message());
  patterns_.emplace(key, *expr);
  return *expr;
}

bool Normalizer::is_empty(const Record& record) {
  if (record.allowed && record.allowed->empty()) return true;
  return record.types == 0;
}

Result<const std::vector<Record>*> Normalizer::records(const Conjunction& conjunction) {
  if (const auto known = known_.find(conjunction); known != known_.end()) return &known->second;
  if (in_progress_.size() > kMaxOpenExpansions || ++in_progress_[conjunction] > 1) {
    return invalid_argument("alternatives that refer to themselves cannot be told apart");
  }
  auto expanded = expand(conjunction);
  in_progress_.erase(conjunction);
  QUIRE_RETURN_IF_ERROR(expanded.status());
  return &known_.emplace(conjunction, std::move(expanded).value()).first->second;
}

Result<std::vector<Record>> Normalizer::expand(const Conjunction& conjunction) {
  std::vector<Partial> work(1);
  work[0].todo = conjunction;
  // Sorts by position in the text, the last first. Conjunctions are sorted by address, which
  // differs between runs, but the order of members must not.
  const auto place = [this](const SchemaRef& ref) {
    return std::pair(document_.order_of(*ref.schema), ref.is_negated);
  };
  std::stable_sort(work[0].todo.begin(), work[0].todo.end(),
                   [&](const SchemaRef& a, const SchemaRef& b) { return place(a) < place(b); });
  std::vector<Record> out;
  size_t num_steps = 0;
  while (!work.empty()) {
    Partial partial = std::move(work.back());
    work.pop_back();
    std::vector<Choice> choices;
    while (!partial.todo.empty()) {
      const SchemaRef ref = partial.todo.back();
      partial.todo.pop_back();
      const size_t before = partial.seen.size();
      add_to(partial.seen, ref);
      const bool is_false = ref.schema->is_bool() && ref.schema->get_bool() == ref.is_negated;
      if (is_false) partial.record.types = 0;
      if (partial.seen.size() == before || is_false) continue;
      if (const Status status = apply(ref, partial, choices); !status.ok()) {
        return status.with_context(document_.path_of(*ref.schema));
      }
    }
    if (is_empty(partial.record)) continue;
    if (choices.empty()) {
      out.push_back(std::move(partial.record));
      continue;
    }
    std::vector<Partial> product{std::move(partial)};
    for (const Choice& choice : choices) {
      std::vector<Partial> next;
      for (const Partial& base : product) {
        for (const Branch& branch : choice) {
          Partial copy = base;
          copy.todo.insert(copy.todo.end(), branch.add.begin(), branch.add.end());
          if (branch.apply) branch.apply(copy.record);
          if (!is_empty(copy.record)) next.push_back(std::move(copy));
        }
      }
      product = std::move(next);
      num_steps += product.size();
      if (num_steps > kMaxRecords * 8 || product.size() > kMaxRecords) {
        return over_budget(kMaxRecords, "combinations of alternatives in a schema");
      }
    }
    // Pushes in reverse, so that the alternatives are handled in the order of the schema.
    for (size_t i = product.size(); i-- > 0;) work.push_back(std::move(product[i]));
  }
  return out;
}

Status Normalizer::apply(const SchemaRef& ref, Partial& partial, std::vector<Choice>& choices) {
  if (!ref.schema->is_object() && !ref.schema->is_bool()) {
    return invalid_argument("expected a schema: an object or a boolean");
  }
  if (!ref.schema->is_object()) return {};
  if (!ref.is_negated) return apply_schema(*ref.schema, partial, choices);
  QUIRE_ASSIGN_OR_RETURN(Choice choice, negation(ref.schema->get_object()));
  choices.push_back(std::move(choice));
  return {};
}

Status Normalizer::apply_schema(const json::value& value, Partial& partial,
                                std::vector<Choice>& choices) {
  const json::object& schema = value.get_object();
  for (const std::string_view keyword : {"$ref", "$dynamicRef", "$recursiveRef"}) {
    if (!schema.contains(keyword)) continue;
    QUIRE_ASSIGN_OR_RETURN(const json::value* target, document_.resolve(schema, keyword));
    QUIRE_ASSIGN_OR_RETURN(const bool loops, refers_to_itself(value));
    if (loops) return invalid_argument("{}: the schema refers to itself in its own place", keyword);
    partial.todo.push_back({target});
    if (keyword == "$ref" && document_.ref_hides_siblings()) return {};
  }
  for (const std::string_view keyword : kUnsupported) {
    const json::value* rule = schema.if_contains(keyword);
    if (rule != nullptr && !is_trivial(*rule)) {
      return invalid_argument("{}: not supported", keyword);
    }
  }
  QUIRE_RETURN_IF_ERROR(apply_any(schema, partial.record));
  QUIRE_RETURN_IF_ERROR(apply_string(schema, partial.record));
  QUIRE_RETURN_IF_ERROR(apply_number(schema, partial.record));
  QUIRE_RETURN_IF_ERROR(apply_array(schema, partial.record));
  QUIRE_RETURN_IF_ERROR(apply_object(schema, partial.record, choices));
  return apply_applicators(schema, partial, choices);
}

// Searches depth-first over the subschemas that apply to the same value as `root`. If a path
// returns to a schema that is on it, validating that schema requires itself, before any part of the
// value is read.
Result<bool> Normalizer::refers_to_itself(const json::value& root) {
  struct Frame {
    const json::value* schema;
    std::vector<const json::value*> next;
  };
  std::vector<Frame> path;
  std::set<const json::value*> on_path;
  const auto enter = [&](const json::value* schema) -> Status {
    if (!schema->is_object() || loop_free_.contains(schema)) return {};
    QUIRE_ASSIGN_OR_RETURN(auto next, document_.in_place_subschemas(schema->get_object()));
    on_path.insert(schema);
    path.push_back({schema, std::move(next)});
    return {};
  };
  QUIRE_RETURN_IF_ERROR(enter(&root));
  while (!path.empty()) {
    Frame& frame = path.back();
    if (frame.next.empty()) {
      loop_free_.insert(frame.schema);
      on_path.erase(frame.schema);
      path.pop_back();
      continue;
    }
    const json::value* next = frame.next.back();
    frame.next.pop_back();
    if (on_path.contains(next)) return true;
    QUIRE_RETURN_IF_ERROR(enter(next));
  }
  return false;
}

Status Normalizer::apply_any(const json::object& schema, Record& record) {
  if (const json::value* type = schema.if_contains("type")) {
    QUIRE_ASSIGN_OR_RETURN(const Types types, types_of(*type));
    record.types &= types.bits;
    record.number.is_integer |= types.is_integer;
  }
  std::vector<const json::value*> values;
  const json::value* constant = schema.if_contains("const");
  if (constant != nullptr) values.push_back(constant);
  const json::value* list = schema.if_contains("enum");
  if (list != nullptr && !list->is_array()) return invalid_argument("enum: expected a list");
  const auto meet = [&](const std::vector<const json::value*>& others) {
    if (!record.allowed) {
      record.allowed = others;
      return;
    }
    std::erase_if(*record.allowed, [&](const json::value* value) {
      return std::none_of(others.begin(), others.end(),
                          [&](const json::value* other) { return equal_values(*value, *other); });
    });
  };
  if (constant != nullptr) meet(values);
  if (list != nullptr) {
    values.clear();
    for (const json::value& value : list->get_array()) values.push_back(&value);
    meet(values);
  }
  if (record.allowed) {
    std::erase_if(*record.allowed,
                  [&](const json::value* value) { return (type_of(*value) & record.types) == 0; });
  }
  return {};
}

Status Normalizer::apply_string(const json::object& schema, Record& record) {
  if (const json::value* text = schema.if_contains("pattern")) {
    if (!text->is_string()) return invalid_argument("pattern: expected a string");
    auto expr = pattern(text->get_string());
    if (!expr.ok()) return expr.status().with_context("pattern");
    record.patterns.push_back(*expr);
  }
  if (const json::value* name = schema.if_contains("format");
      name != nullptr && name->is_string()) {
    if (const auto expr = format(name->get_string())) record.patterns.push_back(*expr);
  }
  if (const json::value* min = schema.if_contains("minLength")) {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t count, count_of(*min, "minLength"));
    record.length.meet(count, kUnbounded);
  }
  if (const json::value* max = schema.if_contains("maxLength")) {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t count, count_of(*max, "maxLength"));
    record.length.meet(0, count);
  }
  if (record.length.empty()) record.types &= ~kStringType;
  return {};
}

Status Normalizer::apply_number(const json::object& schema, Record& record) {
  struct Bound {
    std::string_view keyword, exclusive;
    bool is_lower;
  };
  for (const Bound& bound :
       {Bound{"minimum", "exclusiveMinimum", true}, Bound{"maximum", "exclusiveMaximum", false}}) {
    std::optional<NumberBound>& range = bound.is_lower ? record.number.lower : record.number.upper;
    const json::value* exclusive = schema.if_contains(bound.exclusive);
    if (const json::value* value = schema.if_contains(bound.keyword)) {
      const auto number = value->is_number() ? decimal_of(*value) : std::nullopt;
      if (!number) return invalid_argument("{}: expected a number", bound.keyword);
      const bool is_exclusive =  // draft 4
          exclusive != nullptr && exclusive->is_bool() && exclusive->get_bool();
      meet_bound(range, {*number, is_exclusive}, bound.is_lower);
    }
    if (exclusive != nullptr && !exclusive->is_bool()) {
      const auto number = exclusive->is_number() ? decimal_of(*exclusive) : std::nullopt;
      if (!number) return invalid_argument("{}: expected a number", bound.exclusive);
      meet_bound(range, {*number, true}, bound.is_lower);
    }
  }
  if (const json::value* value = schema.if_contains("multipleOf")) {
    const auto number = value->is_number() ? decimal_of(*value) : std::nullopt;
    if (!number || number->is_negative || number->is_zero()) {
      return invalid_argument("multipleOf: expected a positive number");
    }
    record.number.divisors.push_back(*number);
  }
  return {};
}

Status Normalizer::apply_array(const json::object& schema, Record& record) {
  ArrayItems items;
  const json::value* list = schema.if_contains("prefixItems");
  const json::value* rest = schema.if_contains("items");
  if (rest != nullptr && rest->is_array()) {  // before 2020-12
    list = rest;
    rest = schema.if_contains("additionalItems");
  }
  if (list != nullptr && !list->is_array()) return invalid_argument("prefixItems: expected a list");
  if (list != nullptr) {
    for (const json::value& item : list->get_array()) items.prefix.push_back({&item});
  }
  if (rest != nullptr) items.rest = SchemaRef{rest};
  if (list != nullptr || rest != nullptr) record.items.push_back(std::move(items));
  if (const json::value* min = schema.if_contains("minItems")) {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t count, count_of(*min, "minItems"));
    record.num_items.meet(count, kUnbounded);
  }
  if (const json::value* max = schema.if_contains("maxItems")) {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t count, count_of(*max, "maxItems"));
    record.num_items.meet(0, count);
  }
  if (const json::value* unique = schema.if_contains("uniqueItems")) {
    record.has_unique_items |= unique->is_bool() && unique->get_bool();
  }
  if (const json::value* contains = schema.if_contains("contains")) {
    Contains rule{{contains}};
    if (const json::value* min = schema.if_contains("minContains")) {
      QUIRE_ASSIGN_OR_RETURN(rule.min, count_of(*min, "minContains"));
    }
    if (const json::value* max = schema.if_contains("maxContains")) {
      QUIRE_ASSIGN_OR_RETURN(rule.max, count_of(*max, "maxContains"));
    }
    if (rule.min > rule.max) record.types &= ~kArrayType;
    if (rule.min > 0 || rule.max != kUnbounded) record.contains.push_back(rule);
  }
  if (record.num_items.empty()) record.types &= ~kArrayType;
  return {};
}

Status Normalizer::apply_object(const json::object& schema, Record& record,
                                std::vector<Choice>& choices) {
  MemberRules rules;
  if (const json::value* properties = schema.if_contains("properties")) {
    if (!properties->is_object()) return invalid_argument("properties: expected an object");
    for (const auto& [name, value] : properties->get_object()) {
      rules.properties.emplace_back(name, SchemaRef{&value});
    }
  }
  if (const json::value* patterns = schema.if_contains("patternProperties")) {
    if (!patterns->is_object()) return invalid_argument("patternProperties: expected an object");
    for (const auto& [text, value] : patterns->get_object()) {
      const auto expr = pattern(text);
      if (!expr.ok()) return expr.status().with_context("patternProperties");
      rules.patterns.emplace_back(*expr, SchemaRef{&value});
    }
  }
  if (const json::value* additional = schema.if_contains("additionalProperties")) {
    rules.additional = SchemaRef{additional};
  }
  if (closes_objects_ && !rules.properties.empty() && rules.patterns.empty() && !rules.additional) {
    rules.additional = SchemaRef{&false_schema()};
  }
  if (!rules.properties.empty() || !rules.patterns.empty() || rules.additional) {
    record.members.push_back(std::move(rules));
  }
  // A boolean here is draft 3.
  if (const json::value* list = schema.if_contains("required");
      list != nullptr && !list->is_bool()) {
    if (!list->is_array()) return invalid_argument("required: expected a list");
    for (const json::value& name : list->get_array()) {
      if (!name.is_string()) return invalid_argument("required: expected strings");
      const std::string text(name.get_string());
      if (std::find(record.required.begin(), record.required.end(), text) ==
          record.required.end()) {
        record.required.push_back(text);
      }
    }
  }
  if (const json::value* min = schema.if_contains("minProperties")) {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t count, count_of(*min, "minProperties"));
    record.num_members.meet(count, kUnbounded);
  }
  if (const json::value* max = schema.if_contains("maxProperties")) {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t count, count_of(*max, "maxProperties"));
    record.num_members.meet(0, count);
  }
  if (record.num_members.empty()) record.types &= ~kObjectType;
  if (const json::value* names = schema.if_contains("propertyNames")) {
    record.names.push_back({names});
  }
  for (const std::string_view keyword : {"dependencies", "dependentRequired", "dependentSchemas"}) {
    QUIRE_RETURN_IF_ERROR(apply_dependencies(schema, keyword, choices));
  }
  return {};
}

Status Normalizer::apply_dependencies(const json::object& schema, std::string_view keyword,
                                      std::vector<Choice>& choices) {
  const json::value* dependencies = schema.if_contains(keyword);
  if (dependencies == nullptr) return {};
  if (!dependencies->is_object()) return invalid_argument("{}: expected an object", keyword);
  for (const auto& [key, value] : dependencies->get_object()) {
    const std::string name(key);
    std::vector<std::string> needed;
    if (const json::array* list = value.if_array()) {
      for (const json::value& other : *list) {
        if (!other.is_string()) return invalid_argument("{}: expected names", keyword);
        needed.emplace_back(other.get_string());
      }
    } else if (value.is_string()) {  // draft 3
      needed.emplace_back(value.get_string());
    }
    if (value.is_array() && needed.empty()) continue;
    Choice choice;
    choice.push_back({{}, [](Record& record) { record.types &= ~kObjectType; }});
    choice.push_back({{}, [name](Record& record) {
                        record.types &= kObjectType;
                        forbid_member(record, name);
                      }});
    Branch present{{}, [name, needed](Record& record) {
                     record.types &= kObjectType;
                     require_member(record, name);
                     for (const std::string& other : needed) require_member(record, other);
                   }};
    if (value.is_object() || value.is_bool()) present.add.push_back({&value});
    choice.push_back(std::move(present));
    choices.push_back(std::move(choice));
  }
  return {};
}

Status Normalizer::apply_applicators(const json::object& schema, Partial& partial,
                                     std::vector<Choice>& choices) {
  for (const std::string_view keyword : {"allOf", "anyOf", "oneOf"}) {
    const json::value* value = schema.if_contains(keyword);
    if (value == nullptr) continue;
    if (!value->is_array()) return invalid_argument("{}: expected a list", keyword);
    const json::array& list = value->get_array();
    if (keyword == "oneOf" && list.size() > 1) {
      auto choice = one_of(list);
      if (!choice.ok()) return choice.status().with_context("oneOf");
      choices.push_back(std::move(choice).value());
      continue;
    }
    if (keyword == "allOf") {
      // `todo` is processed from its end, so this gives the order of the schema.
      for (size_t i = list.size(); i-- > 0;) partial.todo.push_back({&list[i]});
      continue;
    }
    Choice choice;
    for (const json::value& alternative : list) choice.push_back({{{&alternative}}, {}});
    choices.push_back(std::move(choice));
  }
  if (const json::value* negated = schema.if_contains("not")) {
    partial.todo.push_back({negated, true});
  }
  const json::value* condition = schema.if_contains("if");
  const json::value* yes = schema.if_contains("then");
  const json::value* no = schema.if_contains("else");
  if (condition != nullptr && (yes != nullptr || no != nullptr)) {
    Choice choice;
    choice.push_back({{{condition}, {yes != nullptr ? yes : &true_schema()}}, {}});
    choice.push_back({{{condition, true}, {no != nullptr ? no : &true_schema()}}, {}});
    choices.push_back(std::move(choice));
  }
  return {};
}

// Makes the alternatives of oneOf. Those that cannot hold together need no more; others are made to
// exclude each other.
Result<Normalizer::Choice> Normalizer::one_of(const json::array& alternatives) {
  constexpr size_t kMaxAlternatives = 256;
  if (alternatives.size() > kMaxAlternatives) {
    return invalid_argument("expected at most {} alternatives", kMaxAlternatives);
  }
  Choice choice;
  for (const json::value& alternative : alternatives) choice.push_back({{{&alternative}}, {}});
  for (size_t i = 0; i < alternatives.size(); ++i) {
    for (size_t j = i + 1; j < alternatives.size(); ++j) {
      Conjunction a, b;
      add_to(a, {&alternatives[i]});
      add_to(b, {&alternatives[j]});
      const auto disjoint = are_disjoint(a, b, 0);
      if (disjoint.ok() && *disjoint) continue;
      choice[i].add.push_back({&alternatives[j], true});
      choice[j].add.push_back({&alternatives[i], true});
    }
  }
  return choice;
}

}  // namespace quire::grammar
