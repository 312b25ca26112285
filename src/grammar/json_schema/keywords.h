// These functions read keywords' values, and add constraints that several keywords put on a record.
#pragma once

#include "base/result.h"
#include "grammar/json_schema/record.h"

namespace quire::grammar {

// Reads the value of minLength and the like: a whole number that is not negative.
Result<uint64_t> count_of(const json::value& value, std::string_view keyword);

// Returns whether a schema is `true` or `{}`.
bool is_trivial(const json::value& schema);

struct Types {
  uint8_t bits = 0;
  bool is_integer = false;  // numbers must be whole
};
// Reads the value of `type`.
Result<Types> types_of(const json::value& value);

// Replaces `bound` by `other` if that is tighter.
void meet_bound(std::optional<NumberBound>& bound, const NumberBound& other, bool is_lower);

// These add to a record that an object's member `name` must be present, or must be absent.
void require_member(Record& record, const std::string& name);
void forbid_member(Record& record, const std::string& name);

}  // namespace quire::grammar
