// The roofline verbs print numbers in these forms.
#pragma once

#include <fmt/format.h>

#include <string>

namespace quire::roofline {

inline std::string time_text(double us) {
  return us >= 1e4 ? fmt::format("{:.1f} ms", us * 1e-3) : fmt::format("{:.0f} us", us);
}

// 1234567 becomes "1.23M", for token rates.
inline std::string rate_text(double value) {
  if (value >= 1e6) return fmt::format("{:.2f}M", value * 1e-6);
  if (value >= 1e4) return fmt::format("{:.1f}k", value * 1e-3);
  return fmt::format("{:.0f}", value);
}

// 16.1e9 becomes "16.1 G", for numbers that a unit follows.
inline std::string scaled(double value) {
  if (value >= 1e12) return fmt::format("{:.4g} T", value * 1e-12);
  if (value >= 1e9) return fmt::format("{:.4g} G", value * 1e-9);
  return fmt::format("{:.4g} M", value * 1e-6);
}

}  // namespace quire::roofline
