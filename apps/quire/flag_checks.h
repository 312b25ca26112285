// These checks of flags return messages that say what was expected and what came.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace quire::cli {

// Accepts an integer >= low.
inline CLI::Validator at_least(int64_t low) {
  const auto check = [low](std::string& text) -> std::string {
    int64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && stop == end && value >= low) return {};
    return fmt::format("expected an integer >= {}, got {}", low, text);
  };
  return {check, fmt::format(">= {}", low)};
}

// Accepts an integer in [low, high].
inline CLI::Validator in_range(int64_t low, int64_t high) {
  const auto check = [low, high](std::string& text) -> std::string {
    int64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && stop == end && value >= low && value <= high) return {};
    return fmt::format("expected an integer in [{}, {}], got {}", low, high, text);
  };
  return {check, fmt::format("in [{}, {}]", low, high)};
}

// Accepts a number in [low, high].
inline CLI::Validator between(double low, double high) {
  const auto check = [low, high](std::string& text) -> std::string {
    char* stop = nullptr;
    const double value = std::strtod(text.c_str(), &stop);
    if (!text.empty() && *stop == '\0' && value >= low && value <= high) return {};
    return fmt::format("expected a number in [{}, {}], got {}", low, high, text);
  };
  return {check, fmt::format("in [{}, {}]", low, high)};
}

// The longest span of virtual time, which is counted in nanoseconds with 64 bits.
inline constexpr double kMostSeconds = 1e9;
inline CLI::Validator seconds(double least = 0) { return between(least, kMostSeconds); }
inline CLI::Validator milliseconds() { return between(0, kMostSeconds * 1e3); }

inline CLI::Validator not_empty() {
  return {
      [](std::string& text) { return text.empty() ? "expected a non-empty text" : std::string(); },
      "TEXT"};
}

inline CLI::Validator one_of(std::vector<std::string> names) {
  const std::string list = fmt::format("{}", fmt::join(names, ", "));
  const auto check = [names = std::move(names), list](std::string& text) -> std::string {
    for (const std::string& name : names) {
      if (name == text) return {};
    }
    return fmt::format("expected one of {}, got {}", list, text);
  };
  return {check, "{" + list + "}"};
}

// Accepts bytes, or a number with a unit (powers of 1024, with or without the i). It is for
// transform().
inline CLI::Validator byte_size() {
  const auto to_bytes = [](std::string& text) -> std::string {
    const std::string given = text;
    try {
      if (given.find('-') == given.npos && CLI::AsSizeValue(false)(text).empty()) return {};
    } catch (const CLI::Error&) {  // the number is too large for its unit
    }
    return "expected a size such as 512MiB or 2GiB, got " + given;
  };
  return {to_bytes, "SIZE"};
}

// Accepts a finite number > 0.
inline CLI::Validator above_zero() {
  const auto check = [](std::string& text) -> std::string {
    char* stop = nullptr;
    const double value = std::strtod(text.c_str(), &stop);
    if (!text.empty() && *stop == '\0' && std::isfinite(value) && value > 0) return {};
    return fmt::format("expected a number > 0, got {}", text);
  };
  return {check, "> 0"};
}

}  // namespace quire::cli
