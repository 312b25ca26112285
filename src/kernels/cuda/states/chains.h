// A chain is consecutive segments of one sequence, each of which continues from the state that the
// one before leaves. Different sequences of a step share no block that is written in it, so chains
// run in parallel.
#pragma once

#include "kernels/api/state.h"
#include "kernels/cuda/device_code.h"

namespace quire::cuda {

// Returns whether segment s continues the chain of the segment before it. Padding (a segment
// without tokens) never does.
QUIRE_DEVICE bool continues_chain(const StateSegments& segments, int32_t s) {
  return s > 0 && s < segments.num_segments && segments.state_in[s] != 0 &&
         segments.state_in[s] == segments.state_out[s - 1];
}

// Returns the state that a segment begins with; null stands for zeros.
QUIRE_DEVICE const float* state_before(const StateSegments& segments, const StateView& view,
                                       int32_t s) {
  const int32_t block = segments.state_in[s];
  return block == 0 ? nullptr : view.data + block * view.block_stride;
}
// Returns where a segment leaves its state; null: it leaves none.
QUIRE_DEVICE float* state_behind(const StateSegments& segments, const StateView& view, int32_t s) {
  const int32_t block = segments.state_out[s];
  return block == 0 ? nullptr : view.data + block * view.block_stride;
}

// Runs the chain that begins with segment s, if one does: load(state) once, run(begin, end) for the
// tokens of each of its segments in order, and save(state) after each segment that leaves a state.
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

// Calls step(token, inputs) for each token of a segment in order, with the inputs that fetch(token)
// returns. The inputs of the next kAhead tokens are being loaded meanwhile; with 0 they are fetched
// when they are needed.
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
