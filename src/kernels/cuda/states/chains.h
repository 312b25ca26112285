// Segments of one sequence go on from each other, one after the other: a chain. Different sequences
// of a step share no block that is written in it, so chains run side by side.
#pragma once

#include "kernels/api/state.h"
#include "kernels/cuda/device_code.h"

namespace quire::cuda {

// Whether segment s begins a chain. Padding (a segment without tokens) is one of its own.
QUIRE_DEVICE bool continues_chain(const StateSegments& segments, int32_t s) {
  return s > 0 && s < segments.num_segments && segments.state_in[s] != 0 &&
         segments.state_in[s] == segments.state_out[s - 1];
}

// The state that a segment begins with; null: zeros.
QUIRE_DEVICE const float* state_before(const StateSegments& segments, const StateView& view,
                                       int32_t s) {
  const int32_t block = segments.state_in[s];
  return block == 0 ? nullptr : view.data + block * view.block_stride;
}
// Where a segment leaves its state; null: nowhere.
QUIRE_DEVICE float* state_behind(const StateSegments& segments, const StateView& view, int32_t s) {
  const int32_t block = segments.state_out[s];
  return block == 0 ? nullptr : view.data + block * view.block_stride;
}

// Runs the chain that begins with segment s, if one does: load(state) once, step(token) for each of
// its tokens in their order, save(state) behind each segment that leaves one.
template <typename Load, typename Step, typename Save>
QUIRE_DEVICE void run_chain(const StateSegments& segments, const StateView& view, int32_t s,
                            const Load& load, const Step& step, const Save& save) {
  if (continues_chain(segments, s)) return;
  load(state_before(segments, view, s));
  do {
    for (int32_t t = segments.start_loc[s]; t < segments.start_loc[s + 1]; ++t) step(t);
    float* const behind = state_behind(segments, view, s);
    if (behind != nullptr) save(behind);
    ++s;
  } while (continues_chain(segments, s));
}

}  // namespace quire::cuda
