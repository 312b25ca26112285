// These functions format numbers for the roofline verbs.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "roofline/hardware/number_format.h"
#include "roofline/shape/model_shape.h"

namespace quire::roofline {

inline std::string time_text(double us) {
  return us >= 1e4 ? fmt::format("{:.1f} ms", us * 1e-3) : fmt::format("{:.0f} us", us);
}

// Formats token rates: 1234567 becomes "1.23M".
inline std::string rate_text(double value) {
  if (value >= 1e6) return fmt::format("{:.2f}M", value * 1e-6);
  if (value >= 1e4) return fmt::format("{:.1f}k", value * 1e-3);
  return fmt::format("{:.0f}", value);
}

// Formats numbers that are followed by a unit: 16.1e9 becomes "16.1 G".
inline std::string scaled(double value) {
  if (value >= 1e12) return fmt::format("{:.4g} T", value * 1e-12);
  if (value >= 1e9) return fmt::format("{:.4g} G", value * 1e-9);
  return fmt::format("{:.4g} M", value * 1e-6);
}

// Returns "bf16 16-bit", or "bf16 16-bit, experts mxfp4 4.25-bit" where most of a model's weights
// have another format than those of its layers.
inline std::string weights_text(const ModelShape& model) {
  const auto name = [](const NumberFormat& format) {
    return fmt::format("{} {:g}-bit", to_string(kernel_kind(format)), format.bits);
  };
  std::string text = name(model.weights);
  const bool moe = std::any_of(model.groups.begin(), model.groups.end(),
                               [](const LayerGroup& group) { return group.ffn.moe(); });
  if (moe && kernel_kind(model.expert_weights) != kernel_kind(model.weights)) {
    text += ", experts " + name(model.expert_weights);
  }
  return text;
}

}  // namespace quire::roofline
