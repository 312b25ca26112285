#include "server/json/query_values.h"

#include <algorithm>
#include <charconv>

namespace quire::server {

std::optional<std::string_view> query_value(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    const size_t equals = std::min(pair.find('='), pair.size());
    if (pair.substr(0, equals) == name) {
      return pair.substr(std::min(equals + 1, pair.size()));
    }
    query.remove_prefix(std::min(end + 1, query.size()));
  }
  return std::nullopt;
}

ApiResult<int64_t> query_integer(std::string_view query, std::string_view name, int64_t otherwise,
                                 int64_t least, int64_t most) {
  const std::optional<std::string_view> text = query_value(query, name);
  if (!text) return otherwise;
  int64_t value = 0;
  const auto [end, ec] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (ec == std::errc() && end == text->data() + text->size() && value >= least && value <= most) {
    return value;
  }
  return field_error(
      name, fmt::format("expected an integer in [{}, {}], got {}", least, most, in_quotes(*text)));
}

}  // namespace quire::server
