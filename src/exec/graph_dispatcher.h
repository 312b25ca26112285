// Which captured graph runs a step. A graph is of one batch size; a smaller batch is padded up to
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace quire {

// What decides: a step is of a graph's shape when every request brings one token.
struct StepSize {
  int32_t num_reqs = 0;
  int64_t num_tokens = 0;
  int32_t max_query_len = 0;
};

// Counts since the start.
struct GraphStats {
  std::vector<int64_t> launches;  // per bucket
  int64_t eager_prefill = 0;      // steps with a longer query
  int64_t eager_too_large = 0;    // decode steps above the largest bucket
  int64_t eager_uncaptured = 0;   // steps of a bucket whose graph was not there yet
  int64_t tokens = 0;             // that graphs ran for requests
  int64_t padding_tokens = 0;     // that they ran for nobody
};

class GraphDispatcher {
 public:
  // Buckets 1, 2, 4, 8, 16, 24, 32, … in steps of 8 to 64, then of 16 to 256, then of 64, up to
  // `max_reqs`, which is always one. None when `max_reqs` is 0: no graphs.
  explicit GraphDispatcher(int32_t max_reqs);

  std::span<const int32_t> buckets() const { return buckets_; }
  // The index of the bucket to run the step in; empty: the step is of no graph's shape.
  std::optional<size_t> bucket_of(const StepSize& step) const;
  // Counts a step that runs now, in the bucket that bucket_of() said.
  void count(const StepSize& step, std::optional<size_t> bucket, bool is_captured);
  const GraphStats& stats() const { return stats_; }

 private:
  std::vector<int32_t> buckets_;  // ascending
  GraphStats stats_;
};

}  // namespace quire
