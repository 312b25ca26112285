// The normal form of a schema is a list of records, each a conjunction of constraints by type. A
// value is valid if at least one record admits it.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "grammar/json_schema/document.h"
#include "grammar/read/number_expr.h"

namespace quire::grammar {

// A SchemaRef is a subschema of the document, or its negation.
struct SchemaRef {
  const json::value* schema = nullptr;
  bool is_negated = false;
  friend auto operator<=>(const SchemaRef&, const SchemaRef&) = default;
};
// A Conjunction holds schemas that must all be satisfied. It is sorted, without duplicates.
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

// MemberRules are what one schema object says about members; `additional` applies to the names that
// neither `properties` nor `patterns` cover.
struct MemberRules {
  std::vector<std::pair<std::string, SchemaRef>> properties;
  std::vector<std::pair<ExprId, SchemaRef>> patterns;  // names as JSON writes them
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
  std::optional<std::vector<const json::value*>> allowed;  // by const and enum
  std::vector<const json::value*> excluded;

  std::vector<ExprId> patterns;  // a string's content must match each of them, as JSON writes it
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
