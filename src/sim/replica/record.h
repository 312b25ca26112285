// These are the results of a run: one record per request, counters of each replica, sums over time.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/replica/histogram.h"

namespace quire::sim {

// A Cause says what a request's time was spent on. The parts of an interval sum to the interval.
enum class Cause : uint8_t {
  kQueue,    // waiting for a step to end, a place in the batch or tokens of the budget
  kKv,       // waiting for KV blocks, recomputing after preemption, loading from a tier
  kCompute,  // steps that computed for the request, including the rest of their batch
  kHost,     // front end, scheduling and launching
  kNetwork,  // transferring KV from prefill to decode
};
inline constexpr int kNumCauses = 5;
std::string_view to_string(Cause cause);
using CauseTimes = std::array<int64_t, kNumCauses>;  // ns, by Cause

enum class Outcome : uint8_t {
  kUnfinished,
  kCompleted,
  kRefused,  // the queue was full
  kTooLong,  // longer than the model or the KV cache allows
};
std::string_view to_string(Outcome outcome);

// A RequestRecord is the result of the workload's request with the same index. Times are
// nanoseconds since the start of the run.
struct RequestRecord {
  Outcome outcome = Outcome::kUnfinished;
  int32_t replica = -1;  // the replica that returned the last token
  int32_t input_tokens = 0;
  int32_t output_tokens = 0;  // generated
  int32_t cached_tokens = 0;  // tokens of the prompt that were found in a prefix cache
  int32_t num_preemptions = 0;
  int64_t arrival_ns = 0;  // sent by the client
  int64_t first_scheduled_ns = 0;
  int64_t first_token_ns = 0;
  int64_t last_token_ns = 0;
  CauseTimes ttft_parts{};    // arrival -> first token
  CauseTimes decode_parts{};  // first token -> last token

  int64_t ttft_ns() const { return first_token_ns - arrival_ns; }
  int64_t e2e_ns() const { return last_token_ns - arrival_ns; }
  // Returns the mean time per output token, 0 for a single token.
  double tpot_ns() const {
    return output_tokens > 1 ? static_cast<double>(last_token_ns - first_token_ns) /
                                   static_cast<double>(output_tokens - 1)
                             : 0.0;
  }
  friend bool operator==(const RequestRecord&, const RequestRecord&) = default;
};

// A TimeSlice has sums over a slice of virtual time. They are integers, so that shards can be
// merged in any order with the same result.
struct TimeSlice {
  int64_t busy_ns = 0;        // over all replicas; a step counts in the slice where it starts
  int64_t running_ns = 0;     // Σ running requests * duration
  int64_t waiting_ns = 0;     // Σ waiting requests * duration, while steps run
  int64_t kv_token_ns = 0;    // Σ tokens in the KV of running requests * duration
  int64_t output_tokens = 0;  // counted where their step ends
  int64_t prompt_tokens = 0;  // computed tokens, counted where their step starts
  int64_t num_arrivals = 0;
  int64_t num_finished = 0;
  friend bool operator==(const TimeSlice&, const TimeSlice&) = default;
};

class Timeline {
 public:
  static constexpr size_t kMaxSlices = 4096;  // later events count in the last slice
  explicit Timeline(int64_t slice_ns = 1'000'000'000) : slice_ns_(slice_ns) {}
  // Returns the slice that contains `ns`. Most calls ask for the same slice as the call before.
  TimeSlice& at(int64_t ns) {
    return ns >= last_begin_ns_ && ns < last_end_ns_ ? slices_[last_] : look_up(ns);
  }
  void merge(const Timeline& other);
  int64_t slice_ns() const { return slice_ns_; }
  const std::vector<TimeSlice>& slices() const { return slices_; }

 private:
  TimeSlice& look_up(int64_t ns);

  int64_t slice_ns_;
  std::vector<TimeSlice> slices_;
  size_t last_ = 0;
  int64_t last_begin_ns_ = 0;
  int64_t last_end_ns_ = 0;  // 0 before the first lookup
};

struct ReplicaCounters {
  int64_t num_steps = 0;
  int64_t num_tokens = 0;  // computed tokens
  int64_t num_output_tokens = 0;
  int64_t num_preemptions = 0;
  int64_t num_recomputed_tokens = 0;
  int64_t prefix_queries = 0;  // tokens
  int64_t prefix_hits = 0;
  int64_t tier_hits = 0;  // tokens loaded from an offload tier
  int64_t num_refused = 0;
  int64_t num_received = 0;  // requests whose KV came from another replica
  int64_t busy_ns = 0;
  int64_t host_ns = 0;
  int64_t kv_blocked_ns = 0;   // busy time in which the head of the queue waited for KV blocks
  int64_t seq_blocked_ns = 0;  // busy time in which requests waited for a place in the batch
  // The token slots in blocks that requests hold, summed over steps, and those of them without a
  // token.
  int64_t reserved_slot_steps = 0;
  int64_t unused_slot_steps = 0;
  int32_t peak_running = 0;
  int32_t peak_waiting = 0;
  int32_t peak_kv_blocks = 0;
  int32_t num_kv_blocks = 0;  // usable
  void add(const ReplicaCounters& other);
};

// ShardStats are the results of one shard of a fleet; shards are merged.
struct ShardStats {
  DurationHistogram itl;
  Timeline timeline;
  void merge(const ShardStats& other);
};

}  // namespace quire::sim
