// These functions read fields of a parsed JSON object with one-line errors. The header is private
// to the tokenizer folder.
#pragma once

#include <boost/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

// Parses with bounded depth into memory that the returned document owns. Errors carry `what` and
// the byte offset.
Result<boost::json::value> parse_json(std::string_view text, std::string_view what);

// These functions treat an absent field and null alike.
const boost::json::value* find_field(const boost::json::object& object, std::string_view name);
Result<std::string> string_field(const boost::json::object& object, std::string_view name);
Result<std::string> string_field_or(const boost::json::object& object, std::string_view name,
                                    std::string_view fallback);
Result<bool> bool_field_or(const boost::json::object& object, std::string_view name, bool fallback);
Result<int64_t> int_field(const boost::json::object& object, std::string_view name);
Result<int64_t> int_field_or(const boost::json::object& object, std::string_view name,
                             int64_t fallback);
Result<const boost::json::array*> array_field(const boost::json::object& object,
                                              std::string_view name);
Result<const boost::json::object*> object_field(const boost::json::object& object,
                                                std::string_view name);
Result<const boost::json::object*> as_object(const boost::json::value& value,
                                             std::string_view what);
std::optional<int64_t> as_int(const boost::json::value& value);
std::string_view as_view(const boost::json::string& string);
std::string_view kind_name(const boost::json::value& value);

}  // namespace quire
