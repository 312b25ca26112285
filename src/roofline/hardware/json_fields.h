// JsonFields reads a JSON object field by field and checks each. It keeps the first error, which
// names the field, and goes on with defaults; the caller checks status() once, at the end.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

// Returns the object in `text`. Anything but an object is an error, and so is one over `max_bytes`
// or more than 32 levels deep.
Result<boost::json::object> parse_json_object(std::string_view text, std::string_view where,
                                              size_t max_bytes);

// Returns the first key that an object in the text has twice, with the names of the objects around
// it; empty: there is none. `text` is valid JSON, where otherwise the second value would silently
// be used.
std::string duplicate_key(std::string_view text);

struct NumberRange {
  double min = 0;
  double max = 1e30;
};

// Borrows the object and the status. A null is the same as an absent key.
class JsonFields {
 public:
  JsonFields(const boost::json::object& object, std::string where, Status& status)
      : object_(&object), where_(std::move(where)), status_(&status) {}

  bool has(std::string_view key) const { return find(key) != nullptr; }
  // Returns the value of the first of `keys` that is present; one is required unless there is a
  // default.
  int64_t integer(std::initializer_list<std::string_view> keys,
                  std::optional<int64_t> default_value = {}, int64_t min = 0,
                  int64_t max = std::numeric_limits<int32_t>::max()) const;
  double number(std::string_view key, double default_value, NumberRange range = {}) const;
  bool boolean(std::string_view key, bool default_value) const;
  std::string string(std::string_view key, std::string_view default_value = {}) const;
  std::vector<std::string> strings(std::string_view key) const;  // empty if absent
  std::vector<int64_t> integers(std::string_view key) const;
  std::optional<JsonFields> child(std::string_view key) const;
  const boost::json::object& object() const { return *object_; }
  const std::string& where() const { return where_; }

  void fail(std::string message) const;
  const Status& status() const { return *status_; }

 private:
  const boost::json::value* find(std::string_view key) const;
  void fail_kind(std::string_view key, std::string_view expected,
                 const boost::json::value& got) const;

  const boost::json::object* object_;
  std::string where_;
  Status* status_;
};

}  // namespace quire
