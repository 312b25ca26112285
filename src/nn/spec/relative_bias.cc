#include "nn/spec/relative_bias.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "kernels/api/attention.h"

namespace quire {

int32_t RelativeBiasSpec::bucket_of(int32_t distance) const {
  const int32_t side = causal ? num_buckets : num_buckets / 2, exact = side / 2;
  const int32_t first = distance > 0 && !causal ? side : 0;
  const int32_t away = causal ? std::max(-distance, 0) : std::abs(distance);
  if (away < exact) return first + away;
  // In float32, as in the code that trained the tables.
  const float ratio = std::log(static_cast<float>(away) / static_cast<float>(exact)) /
                      static_cast<float>(std::log(static_cast<double>(max_distance) / exact));
  const auto more = static_cast<int32_t>(ratio * static_cast<float>(side - exact));
  return first + std::min(exact + more, side - 1);
}

void expand_relative_bias(const RelativeBiasSpec& spec, const float* table, int32_t num_heads,
                          float* out) {
  const auto stride = static_cast<int32_t>(position_bias_stride(spec.max_distance));
  for (int32_t head = 0; head < num_heads; ++head) {
    for (int32_t i = 0; i < stride; ++i) {
      const int32_t distance = std::clamp(i - spec.max_distance - kPositionBiasPadding,
                                          -spec.max_distance, spec.max_distance);
      *out++ = table[spec.bucket_of(distance) * num_heads + head];
    }
  }
}

}  // namespace quire
