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

// Runs the chain that begins with segment s, if one does: load(state) once, run(begin, end) for the
// tokens of each of its segments in their order, save(state) behind each segment that leaves one.
template <typename Load, typename Run, typename Save>
QUIRE_DEVICE void run_chain(const StateSegments& segments, const StateView& view, int32_t s,
                            const Load& load, const Run& run, const Save& save) {
  if (continues_chain(segments, s)) return;
  load(state_before(segments, view, s));
  do {
    run(segments.start_loc[s], segments.start_loc[s + 1]);
    float* const behind = state_behind(segments, view, s);
    if (behind != nullptr) save(behind);
    ++s;
  } while (continues_chain(segments, s));
}

// Calls step(token, inputs) for each token of a segment in their order. What fetch(token) returns is
// on its way from memory for the next kAhead tokens meanwhile; 0: it is fetched when it is needed.
template <int kAhead, typename Fetch, typename Step>
QUIRE_DEVICE void run_tokens(int32_t begin, int32_t end, const Fetch& fetch, const Step& step) {
  if constexpr (kAhead == 0) {
    for (int32_t t = begin; t < end; ++t) step(t, fetch(t));
  } else {
    decltype(fetch(begin)) ahead[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j)
      if (begin + j < end) ahead[j] = fetch(begin + j);
    for (int32_t t = begin; t < end; t += kAhead) {
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        if (t + j >= end) continue;
        step(t + j, ahead[j]);
        if (t + j + kAhead < end) ahead[j] = fetch(t + j + kAhead);
      }
    }
  }
}

}  // namespace quire::cuda
