// run_load() drives an OpenAI-compatible server with many streaming requests and measures what
// clients see. docs/metrics.md defines the figures.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "quire/bench/step_report.h"
#include "sim/workload/workload.h"

namespace quire::bench {

struct LoadOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8000;
  std::string api_key;
  std::string model;  // empty: the first model that /v1/models names
  bool chat = false;  // posts to /v1/chat/completions instead of /v1/completions
  // A trace is sent as it is, with its own times, lengths and shared prefixes. The members below,
  // up to `burstiness`, then only describe the warm-up requests.
  std::optional<sim::Workload> trace = {};
  int32_t num_requests = 1000;
  int32_t num_warmups = 0;
  int32_t input_len = 1024;  // tokens; for chat, words
  int32_t output_len = 128;
  double range_ratio = 0.0;  // lengths are uniform in [len * (1 - ratio), len * (1 + ratio)]
  int32_t prefix_len = 0;    // tokens that all prompts share
  bool ignore_eos = true;
  double request_rate = 0.0;    // per second; 0: all at once
  double burstiness = 1.0;      // shape of the gamma-distributed gaps; 1 is Poisson
  int32_t max_concurrency = 0;  // 0: unlimited
  double timeout_s = 600.0;     // per request
  uint64_t seed = 0;
  std::function<void(int64_t finished, int64_t total)> progress;  // may be empty
};

struct RequestRecord {
  double start_s = 0.0;  // since the beginning of the run
  int32_t input_tokens = 0;
  int32_t output_tokens = 0;
  double ttft_s = 0.0;        // from send to the first chunk with choices
  double e2el_s = 0.0;        // from send to the last chunk with choices
  std::vector<double> itl_s;  // gaps between later chunks with choices
  std::string error;          // empty: succeeded
};

struct LoadResult {
  double duration_s = 0.0;
  int32_t max_concurrent_requests = 0;
  std::optional<StepUse> steps = {};  // of the run, from a Quire server's /metrics
  std::vector<RequestRecord> requests;
  sim::Workload sent;  // what was sent and when; it can be replayed and simulated
};

// Runs the load on the calling thread. It fails only when no request could be made at all.
Result<LoadResult> run_load(const LoadOptions& options);

struct Distribution {
  double mean = 0, median = 0, std = 0, p90 = 0, p99 = 0;
};
Distribution distribution(std::vector<double> values);

struct LoadSummary {
  int32_t completed = 0, failed = 0;
  int64_t input_tokens = 0, output_tokens = 0;
  double request_throughput = 0, output_throughput = 0, total_token_throughput = 0;  // per second
  double peak_output_tokens_per_s = 0;  // of the best span of one to two seconds
  Distribution ttft_ms, tpot_ms, itl_ms, e2el_ms;
  std::optional<double> request_goodput;  // per second
};

// Limits are in milliseconds. A request counts towards goodput when it meets every limit that is
// given.
struct GoodputLimits {
  std::optional<double> ttft_ms, tpot_ms, e2el_ms;
  bool any() const { return ttft_ms || tpot_ms || e2el_ms; }
};

LoadSummary summarize(const LoadResult& result, const GoodputLimits& limits);

}  // namespace quire::bench
