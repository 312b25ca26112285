#include <cmath>

#include "kernels/ref/ref.h"

namespace quire::ref {

void apply_lora(const LoraParams& params, std::span<const std::vector<const void*>> b_rows) {
  for (size_t s = 0; s < params.segments.size(); ++s) {
    const LoraSegment& segment = params.segments[s];
    for (size_t i = 0; i < segment.rows.size(); ++i) {
      for (size_t p = 0; p < segment.parts.size(); ++p) {
        const LoraPart& part = segment.parts[p];
        float* y = params.y;
        y += segment.rows[i] * params.y_stride + part.first_output;
        for (int64_t n = 0; n < part.num_outputs; ++n) {
          double update = 0.0;
          for (int64_t r = 0; r < part.rank; ++r) {
            double sum = 0.0;
            for (int64_t k = 0; k < params.k; ++k) {
              sum += double{params.x[segment.rows[i] * params.x_stride + k]} *
                     load_element(part.a, params.dtype, r * params.k + k);
            }
            update +=
                part.scale * sum * load_element(b_rows[s][p], params.dtype, n * part.rank + r);
          }
          if (part.gain != nullptr) update *= part.gain[n];
          if (part.bias != nullptr) update += part.bias[n];
          if (part.base_gain != nullptr) {
            update +=
                double{part.base_gain[n]} *
                segment.base[static_cast<int64_t>(i) * segment.base_stride + part.first_output + n];
          }
          y[n] = static_cast<float>(y[n] + update);
        }
      }
    }
  }
}

}  // namespace quire::ref
