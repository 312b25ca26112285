// ConfigReader reads a JSON object field by field and checks each. The first field that does not
// fit sets status() to an error that names it, and reading goes on with defaults; so the code that
// reads a configuration checks status() once, at the end.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace quire {

struct KeyAlias;

// Returns a value as JSON for an error, cut if it is long.
std::string shown(const boost::json::value& value);

struct IntRange {
  int64_t min = 0;
  int64_t max = std::numeric_limits<int32_t>::max();
};

// Borrows the object, the aliases, and the status, which it shares with its children. An absent key
// and a null mean the same, except where a function says otherwise. If the object has a key's
// alias, the alias is read instead of the key.
class ConfigReader {
 public:
  // `where` begins error messages: "config.json".
  ConfigReader(const boost::json::object& object, std::string where,
               std::span<const KeyAlias> aliases, Status& status)
      : object_(&object), where_(std::move(where)), aliases_(aliases), status_(&status) {}

  bool has(std::string_view key) const;

  // Without a default the key is required. A list of equal integers is read as one of them.
  int64_t integer(std::string_view key, IntRange range,
                  std::optional<int64_t> default_value = {}) const;
  // The number must be finite and above zero.
  double positive(std::string_view key, std::optional<double> default_value = {}) const;
  std::optional<double> optional_positive(std::string_view key) const;
  // An absent key gives the default, null gives nullopt.
  std::optional<double> positive_or_null(std::string_view key, double default_value) const;
  bool is_null(std::string_view key) const;  // the key exists and is null
  bool boolean(std::string_view key, bool default_value) const;
  std::string string(std::string_view key, std::string_view default_value) const;
  std::vector<double> numbers(std::string_view key) const;       // empty when absent
  std::vector<std::string> strings(std::string_view key) const;  // empty when absent
  // Reads a list of lists of two numbers each; it is empty when absent.
  std::vector<std::pair<double, double>> number_pairs(std::string_view key) const;
  // Returns the number of entries of a list or of characters of a string, and 0 for anything else.
  int64_t length(std::string_view key) const;
  bool is_string(std::string_view key) const;
  bool is_integer(std::string_view key) const;
  std::optional<ConfigReader> child(std::string_view key) const;   // the object under `key`
  std::vector<ConfigReader> children(std::string_view key) const;  // the objects of a list

  // Sets the first error, prefixed with where it happened.
  void fail(std::string message) const;
  const Status& status() const { return *status_; }

 private:
  const boost::json::value* find_raw(std::string_view key) const;
  const boost::json::value* find(std::string_view key) const;
  void fail_kind(std::string_view key, std::string_view expected,
                 const boost::json::value& got) const;

  const boost::json::object* object_;
  std::string where_;
  std::span<const KeyAlias> aliases_;
  Status* status_;
};

}  // namespace quire
