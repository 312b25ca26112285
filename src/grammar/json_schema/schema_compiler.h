// SchemaCompiler turns a schema's normal form into rules, with one rule for each conjunction of
// subschemas whose values contain others.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "grammar/json_schema/json_schema.h"
#include "grammar/json_schema/normalizer.h"

namespace quire::grammar {

class SchemaCompiler {
 public:
  // `gap` matches the blanks that may stand between tokens.
  SchemaCompiler(ExprStore& store, Rules& rules, const SchemaDocument& document,
                 const JsonOptions& options, ExprId gap)
      : store_(store),
        rules_(rules),
        normalizer_(store, document, options.closes_objects),
        any_order_(options.any_order),
        gap_(gap) {}

  // Returns the rule of the whole document.
  Result<RuleId> compile();

 private:
  struct Member {
    std::string name;
    Conjunction schema;
    bool is_required = false;
  };
  struct NameClass {  // other names, whose members have one schema
    ExprId name = 0;
    Conjunction schema;
  };
  struct ObjectPlan {
    std::vector<Member> members;
    std::vector<NameClass> others;
  };

  RuleId rule_of(const Conjunction& conjunction);
  // Returns the values of a conjunction: in place if they have no items or members, otherwise as a
  // call of a rule, which may recurse.
  Result<Fragment> use(const Conjunction& conjunction);
  Result<Fragment> value(const Conjunction& conjunction);
  Status add_types(const Record& record, std::vector<ExprId>& scalars,
                   std::vector<Fragment>& parts);
  Status add_enum(const Record& record, std::vector<ExprId>& scalars, std::vector<Fragment>& parts);

  // These are in arrays.cc.
  Result<Fragment> array(const Record& record);
  Result<Fragment> unique_array(const Record& record, size_t num_prefix);
  Result<Fragment> array_containing(const Record& record, size_t num_prefix);
  Result<std::optional<std::vector<ExprId>>> finite_values(const Conjunction& conjunction);

  // These are in objects.cc.
  Result<Fragment> object(const Record& record);
  Result<ObjectPlan> plan(const Record& record);
  Result<ExprId> other_names(const Record& record, const std::vector<std::string>& known);
  Result<std::vector<NameClass>> name_classes(const Record& record,
                                              const std::vector<std::string>& known);
  Result<Fragment> ordered_members(const ObjectPlan& object);
  Result<Fragment> counted_members(const ObjectPlan& object, const CountRange& count);
  Result<Fragment> any_order_members(const ObjectPlan& object);

  // These make pieces of JSON text.
  ExprId spaced(std::initializer_list<ExprId> parts) {
    return store_.concat(std::span(parts.begin(), parts.size()));
  }
  ExprId comma() { return spaced({gap_, store_.byte(','), gap_}); }
  ExprId quoted(ExprId content) { return spaced({store_.byte('"'), content, store_.byte('"')}); }
  Fragment punctuation(ExprId expr) { return rules_.terminal(expr); }
  ExprId text_of(std::string_view text);
  ExprId json_text(const json::value& value);

  ExprStore& store_;
  Rules& rules_;
  Normalizer normalizer_;
  const bool any_order_;
  const ExprId gap_;
  std::map<Conjunction, RuleId> rule_of_;
  std::vector<std::pair<RuleId, Conjunction>> pending_;
};

// Returns whether `text` has only one spelling in a JSON string.
bool is_plain(std::string_view text);
bool is_false(const SchemaRef& ref);

}  // namespace quire::grammar
