// StreamsSpec describes several residual streams, of which every layer reads one (AltUp), and a
// narrow linear map beside each layer's attention (LAuReL), as plain data. Gemma 3n has both. They
// work on CPUs alone.
#pragma once

#include <cstdint>

namespace quire {

// The first stream begins as the embedding x, the others as its projections, all with the size of x.
// A router r(y) = tanh(R norm(y) / E) says what becomes of them. Before a layer
//   x_s += sum_j (P r(x_active))_sj x_j;   the layer reads x_active and makes y of it, and behind it
//   x_s += (1 + (C r(y))_s) (y - x_active).
// What the layer's own input (LayerInputSpec) makes of x_active * scale goes to all streams but the
// first. The final state is the mean of the first stream and of projections of the others, all with
// the size of the first.
struct StreamsSpec {
  int32_t count = 0;           // S; 0: there is the one residual stream of other models
  int32_t active = 0;          // < S
  bool scales_output = false;  // by `scale` above
  // This is R. With y = N(x) the layer's normed input, x = (x + A(y) + y + norm(up(down(y)))) /
  // sqrt(2) takes the place of x += A(y); 0 says that there is none.
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
