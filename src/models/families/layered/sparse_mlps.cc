#include "models/families/layered/sparse_mlps.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "models/config_reader.h"
#include "models/model_config.h"

namespace quire {
namespace {

// Returns the number of standard deviations above the mean at which the lower `share` of a normal
// distribution ends.
float normal_quantile(double share) {
  double low = -40.0, high = 40.0;
  for (int step = 0; step < 100; ++step) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::numbers::sqrt2) / 2 < share ? low : high) = middle;
  }
  return static_cast<float>(low);
}

std::vector<double> default_shares(size_t num_layers) {
  constexpr size_t kSparseLayers = 10;
  std::vector<double> shares(num_layers, 0.0);
  if (num_layers > kSparseLayers) std::fill_n(shares.begin(), kSparseLayers, 0.95);
  return shares;
}

std::optional<float> cut_of(double share) {
  return share > 0.0 ? std::optional(normal_quantile(share)) : std::nullopt;
}

}  // namespace

void read_sparse_mlps(const ConfigReader& reader, ModelConfig& config) {
  constexpr std::string_view kShares = "activation_sparsity_pattern";
  constexpr std::string_view kDeviations = "activation_sparsity_scale";  // of GGUF files
  constexpr double kNone = -1e30;  // no value is that low: the layer is dense
  const auto num_layers = static_cast<size_t>(config.num_hidden_layers);
  const bool has_deviations = reader.has(kDeviations);
  const std::string_view key = has_deviations ? kDeviations : kShares;
  const std::vector<double> values =
      reader.has(key) ? reader.numbers(key) : default_shares(num_layers);
  if (values.size() != num_layers) {
    reader.fail(fmt::format("{}: expected num_hidden_layers = {} entries, got {}", key, num_layers,
                            values.size()));
    return;
  }
  for (const double value : values) {
    if (has_deviations) {
      config.gate_cuts.push_back(value > kNone ? std::optional(static_cast<float>(value))
                                               : std::nullopt);
      continue;
    }
    if (value >= 1.0) {
      reader.fail(fmt::format("{}: expected shares below 1, got {}", key, value));
      return;
    }
    config.gate_cuts.push_back(cut_of(value));
  }
}

}  // namespace quire
