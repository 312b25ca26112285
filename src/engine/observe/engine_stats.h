// The engine's statistics: counters, gauges and histograms (docs/metrics.md), and the KV block
// grid. They are plain copies, which may be kept, on any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/executor.h"
#include "core/kv_files.h"
#include "roofline/model/cost_model.h"

namespace quire {

// A Prometheus histogram with fixed bucket bounds.
struct Histogram {
  std::vector<double>
      bounds;  // upper bounds, ascending, inclusive; the last bucket, +Inf, is implied
  std::vector<uint64_t> counts;  // [bounds.size() + 1], one per bucket, not cumulative
  double sum = 0;
  uint64_t count = 0;

  Histogram() = default;
  explicit Histogram(std::vector<double> upper_bounds);

  // Counts `times` equal observations.
  void observe(double value, uint64_t times = 1);
};

// Bucket bounds of the exported histograms are vLLM's, with finer steps below 10 ms for inter-token
// times.
namespace buckets {
std::vector<double> time_to_first_token_s();
std::vector<double> inter_token_s();  // also time per output token
std::vector<double> latency_s();
std::vector<double> num_choices();
std::vector<double> num_preemptions();
std::vector<double> iteration_tokens();
std::vector<double> kv_residency_s();
std::vector<double> shares();  // parts of a whole: 0.05 … 1
std::vector<double> ratios();  // around 1
// Returns 1, 2, 5, 10, 20, 50 and so on up to `max_value`, for token counts.
std::vector<double> one_two_five(int64_t max_value);
}  // namespace buckets

// Percentiles of the last observations, at most 2048; nullopt if there were none.
struct Percentiles {
  std::optional<double> p50;
  std::optional<double> p90;
  std::optional<double> p99;
};

// How many requests use an adapter at present.
struct AdapterRequests {
  std::string name;
  int64_t num_running = 0;
  int64_t num_waiting = 0;
};

// How the time of all steps divides, in microseconds: schedule + execute + update is the whole, and
// `executor` has the parts of execute.
struct StepTimeTotals {
  int64_t schedule_us = 0;
  int64_t execute_us = 0;
  int64_t update_us = 0;
  StepTimings executor;
};

// A request here is one choice: n = 3 counts three times, as in vLLM, except where a comment says
// "client request". Times are seconds. A field has the name of its metric without the prefix;
// `_total` counters count since the start.
struct EngineStats {
  double uptime_s = 0;

  // Gauges.
  int64_t num_requests_running = 0;
  int64_t num_requests_waiting =
      0;  // = capacity + deferred; includes what the engine thread has not yet taken over
  int64_t num_requests_waiting_capacity = 0;
  int64_t num_requests_waiting_deferred = 0;
  int64_t num_queued_tokens = 0;  // uncached prompt tokens of waiting requests
  // The share of blocks in use, 0–1, without the null block, in the pool where it is greater.
  double kv_cache_usage = 0;
  // Share of the token slots in referenced blocks, summed over steps, that were not yet filled.
  double wasted_kv_share = 0;

  // Constants of the KV cache, then gauges. in_use + free == num_kv_blocks.
  int32_t block_size = 0;
  int64_t num_kv_blocks = 0;  // without the null block; vLLM's num_gpu_blocks counts it
  int64_t kv_bytes = 0;       // memory of all blocks, null block included
  int64_t kv_blocks_in_use = 0;
  int64_t kv_blocks_cached = 0;  // registered for prefix hits, in use or free
  // The same for the pool of states; 0 for models whose layers keep none.
  int32_t state_block_size = 0;  // tokens from one snapshot to the next
  int64_t num_state_blocks = 0;
  int64_t state_blocks_in_use = 0;
  int64_t state_blocks_cached = 0;
  int32_t max_loras = 0;                  // different adapters in one step; 0: any number
  std::vector<AdapterRequests> adapters;  // adapters of unfinished requests, by name
  bool prefix_caching = false;
  int32_t sleep_level = 0;  // 0: awake
  int32_t max_model_len = 0;
  int32_t max_num_seqs = 0;
  int32_t max_num_batched_tokens = 0;

  // Counters.
  uint64_t prompt_tokens = 0;                // counted when the prompt is done
  uint64_t prompt_tokens_local_compute = 0;  // of prompt_tokens: computed by this engine
  uint64_t prompt_tokens_local_cache_hit = 0;
  uint64_t prompt_tokens_cached = 0;
  uint64_t generation_tokens = 0;
  uint64_t num_preemptions = 0;
  uint64_t requests_received = 0;  // client requests accepted by submit()
  uint64_t requests_refused = 0;   // client requests refused by submit(), whatever the reason
  // Client requests refused because the queue had no room, by the limit that was reached.
  uint64_t rejected_max_num_queued_reqs = 0;
  uint64_t rejected_max_num_queued_tokens = 0;
  uint64_t num_recomputed_tokens = 0;  // computed again after a preemption
  uint64_t kv_evictions = 0;           // blocks
  uint64_t request_success_stop = 0;
  uint64_t request_success_length = 0;
  uint64_t request_success_abort = 0;
  uint64_t request_success_error = 0;
  // Speculation: verifications (a request in a step, with drafts), drafts, accepted drafts, and the
  // latter by their place behind the known tokens, from 0.
  uint64_t spec_decode_num_drafts = 0;
  uint64_t spec_decode_num_draft_tokens = 0;
  uint64_t spec_decode_num_accepted_tokens = 0;
  std::vector<uint64_t> spec_decode_num_accepted_tokens_per_pos;
  // Structured outputs: requests whose grammar was already compiled, grammars that were compiled
  // for other requests, and grammars that could not be compiled.
  uint64_t grammar_hits = 0;
  uint64_t grammars_compiled = 0;
  uint64_t grammars_failed = 0;
  int64_t num_grammars = 0;  // kept for later requests; a gauge
  // Steps of beam searches, and the beams that ran in them.
  uint64_t beam_search_steps = 0;
  uint64_t beam_search_beams = 0;
  uint64_t corrupted_requests = 0;    // failed because the model gave non-finite logits
  uint64_t prefix_cache_queries = 0;  // tokens, counted at admission
  uint64_t prefix_cache_hits = 0;     // tokens, counted at admission
  uint64_t media_cache_queries = 0;   // images and recordings that a request began to need
  uint64_t media_cache_hits = 0;      // of them, those whose embeddings were there
  uint64_t streams_overflowed = 0;    // aborted because their reader was too slow
  int64_t unread_stream_bytes = 0;    // of all streams; output that readers have not taken yet
  uint64_t deadlines_exceeded = 0;    // requests
  uint64_t steps = 0;                 // executed
  uint64_t steps_failed = 0;          // executed, and failed as a whole
  uint64_t scheduled_tokens = 0;      // over all steps, recomputation included
  StepTimeTotals step_time;
  // Sums over all steps of what the cost model counts; 0 without a cost model.
  uint64_t estimated_flops = 0;
  uint64_t estimated_read_bytes = 0;
  uint64_t estimated_write_bytes = 0;
  uint64_t step_us = 0;        // measured
  uint64_t step_bound_us = 0;  // least time in which the hardware could run the same steps

  uint64_t kv_blocks_offloaded = 0;     // copied to host memory
  uint64_t kv_blocks_loaded = 0;        // copied back
  int64_t kv_host_blocks = 0;           // blocks of host memory with content
  std::optional<KvFileStats> kv_files;  // if KV is kept in files
  std::optional<GraphCounts> graphs;    // if the executor has graphs

  // Histograms, seconds. Requests that were aborted or failed are not in the per-request ones.
  Histogram time_to_first_token_seconds;
  Histogram inter_token_latency_seconds;
  Histogram request_time_per_output_token_seconds;
  Histogram e2e_request_latency_seconds;
  Histogram request_queue_time_seconds;
  Histogram request_inference_time_seconds;
  Histogram request_prefill_time_seconds;
  Histogram request_decode_time_seconds;
  Histogram media_encode_seconds;  // of each image, recording or text that an encoder read
  // Histograms, counts.
  Histogram request_prompt_tokens;
  Histogram request_generation_tokens;
  Histogram request_max_num_generation_tokens;  // per client request: the longest choice
  Histogram request_params_n;                   // per client request
  Histogram request_params_max_tokens;
  Histogram request_num_preemptions;
  Histogram iteration_tokens;  // tokens of prompts done + tokens sampled, per step that gave any
  Histogram request_prefill_kv_computed_tokens;
  // Filled once per step, and only with a cost model.
  Histogram step_bound_share;      // bound ÷ measured
  Histogram step_predicted_share;  // predicted ÷ measured
  // KV residency of sampled blocks, seconds.
  Histogram kv_block_lifetime_seconds;
  Histogram kv_block_idle_before_evict_seconds;
  Histogram kv_block_reuse_gap_seconds;

  // Recent windows, seconds.
  Percentiles recent_time_to_first_token;
  Percentiles recent_inter_token_latency;
  Percentiles recent_step;
};

// The shape of one executed step, and how its time divides.
struct StepRecord {
  uint64_t step_id = 0;
  int64_t begin_us = 0;  // engine clock
  int32_t num_requests = 0;
  int32_t num_tokens = 0;      // scheduled
  int32_t num_decodes = 0;     // requests with one token scheduled
  int32_t num_sampled = 0;     // requests that got a token
  int32_t num_waiting = 0;     // requests in the queue
  int64_t decode_context = 0;  // sum of the keys that the decodes attend to
  int32_t kv_blocks_in_use = 0;
  int32_t state_blocks_in_use = 0;
  int64_t schedule_us = 0;
  int64_t execute_us = 0;
  int64_t update_us = 0;  // stop rules, text, and waking the readers of the previous step
  StepTimings executor;   // parts of execute_us
  std::vector<int64_t> media_encode_us;  // of each item; parts of executor.encoder_us
  bool failed = false;
  StepCost cost;  // zero without a cost model

  int64_t total_us() const { return schedule_us + execute_us + update_us; }
  // Bound over measured; 0 when either is unknown.
  double bound_share() const {
    return total_us() > 0 ? cost.bound_us / static_cast<double>(total_us()) : 0;
  }
};

enum class KvCellState : uint8_t {
  kNull = 0,
  kFree = 1,
  kCached = 2,  // unused, reusable as a prefix hit
  kInUse = 3,
  kShared = 4,  // in use by more than one table entry
};

struct KvGridCell {
  KvCellState state = KvCellState::kFree;
  int32_t owner = -1;  // index into KvGridSnapshot::owners, or -1
  int32_t ref_cnt = 0;
};

// Of the pool with keys and values, or of the pool of states if there is no other.
struct KvGridSnapshot {
  int32_t block_size = 0;
  std::vector<std::string> owners;  // external ids of running client requests
  std::vector<KvGridCell> blocks;   // by block id; [0] is the null block
};

}  // namespace quire
