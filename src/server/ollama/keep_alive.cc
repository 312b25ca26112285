#include "server/ollama/keep_alive.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "server/json/json_members.h"

namespace quire::server {
namespace {

namespace json = boost::json;
using Micros = std::optional<int64_t>;

// Longer times are cut to a hundred years.
constexpr double kMaxSeconds = 100.0 * 365 * 24 * 3600;

Micros of_seconds(double seconds) {
  if (seconds < 0) return std::nullopt;
  return static_cast<int64_t>(std::min(seconds, kMaxSeconds) * 1e6);
}

// Returns the seconds of a unit; 0: there is no such unit.
double unit_s(std::string_view unit) {
  if (unit == "ms") return 1e-3;
  if (unit == "s") return 1;
  if (unit == "m") return 60;
  return unit == "h" ? 3600 : 0;
}

// Returns nullopt when the text has another form.
std::optional<double> seconds_of(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative) text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  double seconds = 0;
  bool is_plain = false;  // a number without a unit must stand alone
  for (bool is_first = true; !text.empty(); is_first = false) {
    const size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
    double number = 0;
    const auto [parsed, ec] = std::from_chars(text.data(), text.data() + end, number);
    if (end == 0 || ec != std::errc() || parsed != text.data() + end || is_plain)
      return std::nullopt;
    text.remove_prefix(end);
    const size_t unit_end = std::min(text.find_first_of("0123456789."), text.size());
    const std::string_view unit = text.substr(0, unit_end);
    is_plain = unit.empty();
    const double scale = is_plain && is_first ? 1 : unit_s(unit);
    if (scale == 0) return std::nullopt;
    seconds += number * scale;
    text.remove_prefix(unit_end);
  }
  return is_negative ? -std::max(seconds, 1e-6) : seconds;
}

}  // namespace

ApiResult<Micros> parse_keep_alive_us(const json::value& value) {
  if (value.is_number() && std::isfinite(value.to_number<double>()))
    return of_seconds(value.to_number<double>());
  if (value.is_string()) {
    if (const auto seconds = seconds_of(std::string_view(value.get_string())))
      return of_seconds(*seconds);
  }
  return wrong_value("keep_alive", "seconds, or a text such as \"5m\" or \"1h30m\"", value);
}

}  // namespace quire::server
