// Normalizer turns conjunctions of subschemas into records.
#pragma once

#include <functional>
#include <map>
#include <set>

#include "grammar/json_schema/record.h"
#include "grammar/rules/encoding.h"

namespace quire::grammar {

class Normalizer {
 public:
  // With `closes_objects`, a schema with `properties` that says nothing about other names allows
  // none.
  Normalizer(ExprStore& store, const SchemaDocument& document, bool closes_objects)
      : encoder_(store, TextForm::kJsonString),
        store_(store),
        document_(document),
        closes_objects_(closes_objects) {}

  // Returns the records of a conjunction; the pointer stays valid. Returns an error for a schema
  // that cannot be enforced.
  Result<const std::vector<Record>*> records(const Conjunction& conjunction);

  // These return the schemas that a member called `name`, or an item at `index`, must satisfy.
  Result<Conjunction> member(const Record& record, std::string_view name);
  static Conjunction item(const Record& record, size_t index);

  // Returns whether `value` satisfies all of `conjunction`.
  Result<bool> admits(const Conjunction& conjunction, const json::value& value);
  Result<bool> admits(const Record& record, const json::value& value);

  // Returns the expression of a string's content by the record's patterns and lengths.
  ExprId string_content(const Record& record);
  Encoder& encoder() { return encoder_; }
  const SchemaDocument& document() const { return document_; }

 private:
  struct Branch {
    std::vector<SchemaRef> add;
    std::function<void(Record&)> apply;
  };
  using Choice = std::vector<Branch>;  // one of the branches must hold
  struct Partial {
    Record record;
    std::vector<SchemaRef> todo;
    Conjunction seen;
  };

  Result<std::vector<Record>> expand(const Conjunction& conjunction);
  Status apply(const SchemaRef& ref, Partial& partial, std::vector<Choice>& choices);
  Status apply_schema(const json::value& schema, Partial& partial, std::vector<Choice>& choices);
  Status apply_applicators(const json::object& schema, Partial& partial,
                           std::vector<Choice>& choices);
  Result<bool> refers_to_itself(const json::value& root);
  Status apply_any(const json::object& schema, Record& record);
  Status apply_string(const json::object& schema, Record& record);
  Status apply_number(const json::object& schema, Record& record);
  Status apply_array(const json::object& schema, Record& record);
  Status apply_object(const json::object& schema, Record& record, std::vector<Choice>& choices);
  Status apply_dependencies(const json::object& schema, std::string_view keyword,
                            std::vector<Choice>& choices);
  Result<Choice> one_of(const json::array& alternatives);
  Result<Choice> negation(const json::object& schema);
  Result<bool> negate_keyword(std::string_view keyword, const json::value& value,
                              const json::object& schema, Choice& out);
  Result<bool> negate_value(std::string_view keyword, const json::value& value,
                            const json::object& schema, Choice& out);
  Result<bool> negate_nested(std::string_view keyword, const json::value& value, Choice& out);
  Result<bool> are_disjoint(const Conjunction& a, const Conjunction& b, int depth);
  Result<bool> are_disjoint(const Record& a, const Record& b, int depth);
  Result<bool> are_disjoint_objects(const Record& a, const Record& b, int depth);
  Result<ExprId> pattern(std::string_view text);
  std::optional<ExprId> format(std::string_view name);
  static bool is_empty(const Record& record);

  Encoder encoder_;
  ExprStore& store_;
  const SchemaDocument& document_;
  const bool closes_objects_;
  std::set<const json::value*> loop_free_;  // schemas for which refers_to_itself() is false
  std::map<Conjunction, std::vector<Record>> known_;
  std::map<Conjunction, int> in_progress_;
  std::map<std::string, ExprId, std::less<>> patterns_;
};

// The schemas true and false.
const json::value& true_schema();
const json::value& false_schema();
// Returns a number's value, or nullopt when its text is too long.
std::optional<Decimal> decimal_of(const json::value& number);
uint8_t type_of(const json::value& value);
// Returns whether values are equal in JSON Schema, which compares numbers by value.
bool equal_values(const json::value& a, const json::value& b);
void add_to(Conjunction& conjunction, const SchemaRef& ref);

}  // namespace quire::grammar
