// The normal form of a schema: a list of records, each a conjunction of constraints by type. A
// value is valid when some record admits it.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "grammar/json_schema/document.h"
#include "grammar/read/number_expr.h"

namespace quire::grammar {

// A subschema of the document, or what it does not allow.
struct SchemaRef {
  const json::value* schema = nullptr;
  bool is_negated = false;
  friend auto operator<=>(const SchemaRef&, const SchemaRef&) = default;
};
// All of these hold. Sorted, without duplicates.
using Conjunction = std::vector<SchemaRef>;

enum TypeBit : uint8_t {
  kNull = 1,
  kFalse = 2,
  kTrue = 4,
  kNumberType = 8,
  kStringType = 16,
  kArrayType = 32,
  kObjectType = 64,
  kAllTypes = 127,
};

struct ArrayItems {
  std::vector<SchemaRef> prefix;
  std::optional<SchemaRef> rest;
};

struct Contains {
  SchemaRef schema;
  uint64_t min = 1;
  uint64_t max = kUnbounded;
};

// What one schema object says of members; `additional` is for names that it knows otherwise not.
struct MemberRules {
  std::vector<std::pair<std::string, SchemaRef>> properties;
  std::vector<std::pair<ExprId, SchemaRef>> patterns;  // names in the JSON form
  std::optional<SchemaRef> additional;
};

struct CountRange {
  uint64_t min = 0;
  uint64_t max = kUnbounded;
  void meet(uint64_t lo, uint64_t hi) {
    min = std::max(min, lo);
    max = std::min(max, hi);
  }
  bool empty() const { return min > max; }
};

struct Record {
  uint8_t types = kAllTypes;
  std::optional<std::vector<const json::value*>> allowed;  // const and enum
  std::vector<const json::value*> excluded;

  std::vector<ExprId> patterns;  // of a string's content, in the JSON form
  CountRange length;

  NumberRange number;

  std::vector<ArrayItems> items;
  CountRange num_items;
  bool has_unique_items = false;
  std::vector<Contains> contains;

  std::vector<MemberRules> members;
  std::vector<std::string> required;  // in order of appearance
  CountRange num_members;
  std::vector<SchemaRef> names;
};

}  // namespace quire::grammar
