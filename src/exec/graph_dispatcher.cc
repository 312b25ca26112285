#include "exec/graph_dispatcher.h"

#include <algorithm>

namespace quire {

GraphDispatcher::GraphDispatcher(int32_t max_reqs) {
  // Above 64 padding costs at most a quarter, and each bucket a capture at the start.
  for (int32_t size = 1; size < max_reqs;) {
    buckets_.push_back(size);
    if (size < 8) {
      size *= 2;
    } else {
      size += size < 64 ? 8 : size < 256 ? 16 : 64;
    }
  }
  if (max_reqs > 0) buckets_.push_back(max_reqs);
  stats_.launches.assign(buckets_.size(), 0);
}

std::optional<size_t> GraphDispatcher::choose(const StepSize& step) {
  if (step.max_query_len != 1 || step.num_tokens != step.num_reqs) {
    ++stats_.eager_prefill;
    return std::nullopt;
  }
  const auto bucket = std::lower_bound(buckets_.begin(), buckets_.end(), step.num_reqs);
  if (bucket == buckets_.end()) {
    ++stats_.eager_too_large;
    return std::nullopt;
  }
  const auto index = static_cast<size_t>(bucket - buckets_.begin());
  ++stats_.launches[index];
  stats_.tokens += step.num_tokens;
  stats_.padding_tokens += *bucket - step.num_reqs;
  return index;
}

}  // namespace quire
