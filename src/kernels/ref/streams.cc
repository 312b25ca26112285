#include <algorithm>
#include <cmath>

#include "kernels/ref/ref.h"

namespace quire::ref {
namespace {

double mean_of(const float* x, int64_t size, int power, double minus) {
  double sum = 0.0;
  for (int64_t i = 0; i < size; ++i) sum += std::pow(x[i] - minus, power);
  return sum / static_cast<double>(size);
}

}  // namespace

void predict_streams(const PredictStreamsParams& params) {
  const int64_t n = params.num_streams;
  const int64_t size = params.hidden_size;
  for (int64_t t = 0; t < params.num_tokens; ++t) {
    float* const rows = params.streams + t * n * size;
    for (int64_t i = 0; i < size; ++i) {
      std::vector<double> sums(static_cast<size_t>(n));
      for (int64_t s = 0; s < n; ++s) {
        double& sum = sums[static_cast<size_t>(s)];
        sum = rows[s * size + i];
        for (int64_t j = 0; j < n; ++j)
          sum += static_cast<double>(params.coefs[(t * n + s) * n + j]) * rows[j * size + i];
      }
      for (int64_t s = 0; s < n; ++s)
        rows[s * size + i] = static_cast<float>(sums[static_cast<size_t>(s)]);
      params.active_out[t * size + i] = rows[params.active * size + i];
    }
  }
}

void correct_streams(const CorrectStreamsParams& params) {
  const int64_t n = params.num_streams;
  const int64_t size = params.hidden_size;
  for (int64_t t = 0; t < params.num_tokens; ++t) {
    float* const rows = params.streams + t * n * size;
    for (int64_t i = 0; i < size; ++i) {
      const double news = static_cast<double>(params.made[t * size + i]) -
                          static_cast<double>(rows[params.active * size + i]);
      for (int64_t s = 0; s < n; ++s) {
        float& x = rows[s * size + i];
        x = static_cast<float>(x + news * (1.0 + params.coefs[t * n + s]));
      }
      const float scale = params.scale == nullptr ? 1.0f : params.scale[i];
      params.active_out[t * size + i] = rows[params.active * size + i] * scale;
    }
  }
}

void match_magnitude(const MatchMagnitudeParams& params) {
  const int64_t size = params.hidden_size;
  for (int64_t t = 0; t < params.num_tokens; ++t) {
    float* const x = params.x + t * params.x_stride;
    const double wanted = mean_of(params.like + t * params.like_stride, size, 2, 0.0);
    const double is = std::max(mean_of(x, size, 2, 0.0), static_cast<double>(params.floor));
    for (int64_t i = 0; i < size; ++i) x[i] = static_cast<float>(x[i] * std::sqrt(wanted / is));
  }
}

void add_scaled(const AddScaledParams& params) {
  for (int64_t t = 0; t < params.num_tokens; ++t) {
    for (int64_t i = 0; i < params.hidden_size; ++i) {
      float& x = params.x[t * params.x_stride + i];
      x = static_cast<float>((static_cast<double>(x) + params.y[t * params.y_stride + i]) *
                             params.scale);
    }
  }
}

void cut_below(const CutBelowParams& params) {
  for (int64_t t = 0; t < params.num_tokens; ++t) {
    float* const x = params.x + t * params.x_stride;
    const double mean = mean_of(x, params.size, 1, 0.0);
    const double least = mean + params.deviations * std::sqrt(mean_of(x, params.size, 2, mean));
    for (int64_t i = 0; i < params.size; ++i)
      x[i] = static_cast<float>(std::max(x[i] - least, 0.0));
  }
}

}  // namespace quire::ref
