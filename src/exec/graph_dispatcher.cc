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

std::optional<size_t> GraphDispatcher::bucket_of(const StepSize& step) const {
  if (step.max_query_len != 1 || step.num_tokens != step.num_reqs) return std::nullopt;
  const auto bucket = std::lower_bound(buckets_.begin(), buckets_.end(), step.num_reqs);
  if (bucket == buckets_.end()) return std::nullopt;
  return static_cast<size_t>(bucket - buckets_.begin());
}

void GraphDispatcher::count(const StepSize& step, std::optional<size_t> bucket, bool is_captured) {
  if (!bucket) {
    const bool is_decode = step.max_query_len == 1 && step.num_tokens == step.num_reqs;
    ++(is_decode ? stats_.eager_too_large : stats_.eager_prefill);
  } else if (!is_captured) {
    ++stats_.eager_uncaptured;
  } else {
    ++stats_.launches[*bucket];
    stats_.tokens += step.num_tokens;
    stats_.padding_tokens += buckets_[*bucket] - step.num_reqs;
  }
}

}  // namespace quire
