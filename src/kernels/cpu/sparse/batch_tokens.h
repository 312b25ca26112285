// What choose_tokens() and sparse_attention() need of a batch's tokens, and how they share out work
// whose units differ in size.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "kernels/cpu/dispatch.h"

namespace quire::cpu {

struct BatchToken {
  int32_t request;
  int32_t position;
};

// Finds a token of a batch of `num_reqs` requests: starts [num_reqs + 1], lens [num_reqs].
inline BatchToken batch_token(const int32_t* starts, const int32_t* lens, int32_t num_reqs,
                              int64_t token) {
  const int32_t* after =
      std::upper_bound(starts, starts + num_reqs + 1, static_cast<int32_t>(token));
  const auto request = static_cast<int32_t>(after - starts - 1);
  return {request, lens[request] - (starts[request + 1] - static_cast<int32_t>(token))};
}

// Runs body(thread, i) for each i < n, on whichever thread is free. The caller alone does less than
// 2^14 elements of work, for which waking the team costs more than it saves.
template <class Body>
void for_each_unit(const HostStream& stream, int64_t n, int64_t work, Body&& body) {
  constexpr int64_t kWorthWaking = 1 << 14;
  std::atomic<int64_t> next{0};
  run_parallel(stream, work, kWorthWaking, [&](int thread, int /*num_threads*/) {
    for (int64_t i = next.fetch_add(1); i < n; i = next.fetch_add(1)) body(thread, i);
  });
}

}  // namespace quire::cpu
