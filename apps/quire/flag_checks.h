// Checks of flag values whose messages say what was expected and what came.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace quire::cli {

// An integer >= low.
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

// A finite number > 0.
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
