// StreamsSpec describes several residual streams, of which each layer reads one (AltUp), and a
// narrow linear map beside each layer's attention (LAuReL), as plain data. Gemma 3n has both. They
// work on CPUs only.
#pragma once

#include <cstdint>

namespace quire {

// The first stream starts as the embedding x, the others as projections of x, scaled to the
// magnitude of x. A router r(y) = tanh(R norm(y) / E) controls the streams. Before a layer
//   x_s += sum_j (P r(x_active))_sj x_j;
// the layer reads x_active and computes y from it; then
//   x_s += (1 + (C r(y))_s) (y - x_active).
// The layer's own input (LayerInputSpec), computed from x_active * scale, is added to all streams
// but the first. The final state is the mean of the first stream and of projections of the others,
// scaled to the magnitude of the first.
struct StreamsSpec {
  int32_t count = 0;           // S; 0: one residual stream, as in other models
  int32_t active = 0;          // < S
  bool scales_output = false;  // by `scale` above
  // R. With y = N(x), the layer's normed input, x = (x + A(y) + y + norm(up(down(y)))) / sqrt(2)
  // replaces x += A(y); 0: no such map.
  int64_t laurel_rank = 0;

  bool any() const { return count > 0; }
  int64_t num_parameters(int64_t hidden_size, int64_t num_layers) const {
    const int64_t s = count;
    int64_t layer = laurel_rank > 0 ? 2 * laurel_rank * hidden_size + hidden_size : 0;
    if (!any()) return num_layers * layer;
    layer += s * s * s + s * s + (s + 1 + (scales_output ? 1 : 0)) * hidden_size;
    return num_layers * layer + 2 * (s - 1) * hidden_size * hidden_size;
  }
};

}  // namespace quire
