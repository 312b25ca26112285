// JsonFields reads a JSON object field by field and checks each. The first that does not fit is
// kept and named, reading goes on with defaults, and the caller asks once, at the end, for
// status().
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

// Returns the object that `text` holds. Anything but an object, or one over `max_bytes` or 32
// levels deep, is an error.
Result<boost::json::object> parse_json_object(std::string_view text, std::string_view where,
                                              size_t max_bytes);

// Names the first key that an object of this text has twice, with the names of the objects around
// it; empty: there is none. `text` is valid JSON, in which the last of two would win silently.
std::string duplicate_key(std::string_view text);

struct NumberRange {
  double min = 0;
  double max = 1e30;
};

// JsonFields borrows the object and the status. An absent key and a null are the same.
class JsonFields {
 public:
  JsonFields(const boost::json::object& object, std::string where, Status& status)
      : object_(&object), where_(std::move(where)), status_(&status) {}

  bool has(std::string_view key) const { return find(key) != nullptr; }
  // Returns the first of `keys` that is there; without a default one is required.
  int64_t integer(std::initializer_list<std::string_view> keys,
                  std::optional<int64_t> default_value = {}, int64_t min = 0,
                  int64_t max = std::numeric_limits<int32_t>::max()) const;
  double number(std::string_view key, double default_value, NumberRange range = {}) const;
  bool boolean(std::string_view key, bool default_value) const;
  std::string string(std::string_view key, std::string_view default_value = {}) const;
  std::vector<std::string> strings(std::string_view key) const;  // empty when absent
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
