#include "sim/workload/client_jitter.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/random/random_stream.h"

namespace quire::sim {
namespace {

enum Purpose : uint64_t { kLengths = 301, kDelays };

int32_t scaled(int32_t length, double share, RandomStream& random) {
  const double factor = 1 + share * (2 * random.uniform() - 1);
  return std::max(1, static_cast<int32_t>(std::lround(length * factor)));
}

}  // namespace

void add_client_jitter(const ClientJitter& jitter, Workload& workload) {
  RandomStream lengths(jitter.seed, kLengths), delays(jitter.seed, kDelays);
  std::vector<bool> goes_on(workload.requests.size());
  for (const SimRequest& r : workload.requests) {
    if (r.previous >= 0) goes_on[static_cast<size_t>(r.previous)] = true;
  }
  for (size_t i = 0; i < workload.requests.size(); ++i) {
    SimRequest& r = workload.requests[i];
    if (jitter.length_share > 0 && r.previous < 0 && !goes_on[i]) {
      r.input_tokens = scaled(r.input_tokens, jitter.length_share, lengths);
      r.output_tokens = scaled(r.output_tokens, jitter.length_share, lengths);
    }
    if (jitter.delay_ns <= 0) continue;
    const auto delay_ns =
        static_cast<int64_t>(static_cast<double>(jitter.delay_ns) * delays.uniform());
    const bool after_an_answer = r.previous < 0 && workload.closed_loop.has_value();
    int64_t& time_ns = after_an_answer ? r.delay_ns : r.arrival_ns;
    time_ns = std::min(time_ns + delay_ns, kMaxTimeNs);
  }
  if (jitter.delay_ns > 0 && !workload.closed_loop) sort_by_arrival(workload);
}

}  // namespace quire::sim
