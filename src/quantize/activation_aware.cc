#include "quantize/activation_aware.h"

#include <algorithm>
#include <cmath>

#include "quantize/rounding.h"
#include "weights/tensors/element.h"

namespace quire {
namespace {

constexpr int kExponents = 20;         // 0, 0.05, … 1
constexpr int64_t kSampledRows = 512;  // of each matrix, evenly spread

class Scaler {
 public:
  Scaler(const TensorSource& source, const ModelConfig& config, ThreadTeam& team,
         const ScalingOptions& options)
      : source_(source),
        config_(config),
        names_(checkpoint_names(config)),
        team_(team),
        options_(options) {}

  void add_layer(int32_t layer, const LayerInputMeans& inputs) {
    const std::vector<const RawTensor*> qkv =
        tensors(layer, {TensorRole::kQkv, TensorRole::kQ, TensorRole::kK, TensorRole::kV});
    const std::vector<const RawTensor*> gate_up =
        tensors(layer, {TensorRole::kGateUp, TensorRole::kGate, TensorRole::kUp});
    scale_after_norm(layer, TensorRole::kInputNorm, qkv, inputs.qkv);
    scale_after_norm(layer, TensorRole::kPreMlpNorm, gate_up, inputs.gate_up);
    scale_down(layer, inputs.down);
  }

  Rescales take() { return std::move(rescales_); }

 private:
  // Returns the tensors of those roles that this checkpoint has.
  std::vector<const RawTensor*> tensors(int32_t layer, std::initializer_list<TensorRole> roles) {
    std::vector<const RawTensor*> found;
    for (const TensorRole role : roles) {
      const NameMapEntry* entry = find_role(names_, role);
      if (entry == nullptr) continue;
      for (const NamePrefix& prefix : names_.prefixes) {
        const RawTensor* tensor = source_.find(tensor_name(*entry, prefix, layer, "weight"));
        if (tensor == nullptr) continue;
        found.push_back(tensor);
        break;
      }
    }
    return found;
  }

  bool can_scale(const std::vector<const RawTensor*>& matrices) const {
    return !matrices.empty() &&
           std::all_of(matrices.begin(), matrices.end(), [&](const RawTensor* matrix) {
             return matrix->shape.size() == 2 && fits(options_.scheme, matrix->shape[1]);
           });
  }

  void scale_after_norm(int32_t layer, TensorRole norm_role,
                        const std::vector<const RawTensor*>& matrices,
                        const std::vector<double>& mean_squares) {
    const std::vector<const RawTensor*> norm = tensors(layer, {norm_role});
    if (norm.empty() || !can_scale(matrices)) return;
    const std::vector<float> factors = best_factors(matrices, mean_squares);
    Rescale& inverse = rescales_[norm[0]->name];
    inverse.offset = names_.norm_offset;
    for (const float factor : factors) inverse.columns.push_back(1.0f / factor);
    for (const RawTensor* matrix : matrices) rescales_[matrix->name].columns = factors;
  }

  // The rows of up produce the inputs of down, which are multiplied by the gate.
  void scale_down(int32_t layer, const std::vector<double>& mean_squares) {
    const std::vector<const RawTensor*> down = tensors(layer, {TensorRole::kDown});
    const std::vector<const RawTensor*> up = tensors(layer, {TensorRole::kGateUp, TensorRole::kUp});
    if (up.empty() || config_.mlp_bias || !config_.gated_mlp || !can_scale(down)) return;
    const std::vector<float> factors = best_factors(down, mean_squares);
    // In a fused matrix the rows of up come after those of the gate.
    const int64_t first = up[0]->shape[0] - static_cast<int64_t>(factors.size());
    std::vector<float> rows(static_cast<size_t>(first), 1.0f);
    for (const float factor : factors) rows.push_back(1.0f / factor);
    rescales_[up[0]->name].rows = std::move(rows);
    rescales_[down[0]->name].columns = factors;
  }

  std::vector<float> best_factors(const std::vector<const RawTensor*>& matrices,
                                  const std::vector<double>& mean_squares) {
    const std::vector<Sample> samples = sample_rows(matrices);
    std::vector<double> errors(kExponents + 1);
    std::vector<std::vector<float>> candidates(kExponents + 1);
    team_.run([&](int thread) {
      for (int i = thread; i <= kExponents; i += team_.size()) {
        const auto at = static_cast<size_t>(i);
        candidates[at] = factors_of(mean_squares, static_cast<double>(i) / kExponents);
        for (const Sample& sample : samples) {
          errors[at] += expected_error(sample, candidates[at], mean_squares);
        }
      }
    });
    const auto best = std::min_element(errors.begin(), errors.end()) - errors.begin();
    return candidates[static_cast<size_t>(best)];
  }

  // Returns the root mean squares to the power, around 1.
  static std::vector<float> factors_of(const std::vector<double>& mean_squares, double exponent) {
    std::vector<float> factors;
    double sum = 0.0;
    for (const double square : mean_squares) {
      const double log_factor = 0.5 * exponent * std::log(std::max(square, 1e-12));
      sum += log_factor;
      factors.push_back(static_cast<float>(log_factor));
    }
    const auto mean = static_cast<float>(sum / static_cast<double>(mean_squares.size()));
    for (float& factor : factors) factor = std::exp(std::clamp(factor - mean, -5.0f, 5.0f));
    return factors;
  }

  struct Sample {
    DType dtype;
    std::vector<float> values;  // one row after the other
  };

  static std::vector<Sample> sample_rows(const std::vector<const RawTensor*>& matrices) {
    std::vector<Sample> samples;
    for (const RawTensor* matrix : matrices) {
      const int64_t rows = matrix->shape[0], columns = matrix->shape[1];
      const int64_t step = std::max<int64_t>(rows / kSampledRows, 1);
      Sample& sample = samples.emplace_back();
      sample.dtype = *matrix->dtype;
      for (int64_t row = 0; row < rows; row += step) {
        for (int64_t k = 0; k < columns; ++k) {
          sample.values.push_back(
              read_element(matrix->data.data(), *matrix->dtype, row * columns + k));
        }
      }
    }
    return samples;
  }

  // Returns the sum over the rows of the squared weight errors, each times the mean square of its
  // input.
  double expected_error(const Sample& sample, const std::vector<float>& factors,
                        const std::vector<double>& mean_squares) const {
    const size_t columns = factors.size();
    std::vector<float> scaled(columns), rounded(columns);
    double error = 0.0;
    for (size_t begin = 0; begin < sample.values.size(); begin += columns) {
      for (size_t k = 0; k < columns; ++k) scaled[k] = sample.values[begin + k] * factors[k];
      round_trip(options_.scheme, sample.dtype, scaled, rounded);
      for (size_t k = 0; k < columns; ++k) {
        const double difference = (rounded[k] - scaled[k]) / factors[k];
        error += difference * difference * mean_squares[k];
      }
    }
    return error;
  }

  const TensorSource& source_;
  const ModelConfig& config_;
  const NameMap& names_;
  ThreadTeam& team_;
  const ScalingOptions& options_;
  Rescales rescales_;
};

}  // namespace

Result<Rescales> activation_aware_rescales(const TensorSource& source, const ModelConfig& config,
                                           const std::vector<LayerInputMeans>& inputs,
                                           ThreadTeam& team, const ScalingOptions& options) {
  const bool shares_norm = config.block.residual == ResidualStyle::kParallelOneNorm;
  if (config.block.norm != NormKind::kRms || !config.block.input_norms || shares_norm) {
    return unimplemented(
        "--method awq: expected a family with RMS norms before attention and MLP, got {}",
        config.family->name);
  }
  Scaler scaler(source, config, team, options);
  for (size_t layer = 0; layer < inputs.size(); ++layer) {
    scaler.add_layer(static_cast<int32_t>(layer), inputs[layer]);
    if (options.on_progress) {
      options.on_progress(static_cast<int64_t>(layer) + 1, static_cast<int64_t>(inputs.size()));
    }
  }
  return scaler.take();
}

}  // namespace quire
