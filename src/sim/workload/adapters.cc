#include "sim/workload/adapters.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <vector>

#include "sim/random/random_stream.h"

namespace quire::sim {
namespace {

constexpr uint64_t kPurpose = 0x6c6f7261u;

// Returns the cumulated shares of requests per adapter; the last is 1.
std::vector<double> popularity(const AdapterChoice& choice) {
  std::vector<double> sums;
  double sum = 0;
  for (int32_t k = 1; k <= choice.num_adapters; ++k) {
    sum += std::pow(k, -choice.skew);
    sums.push_back(sum);
  }
  for (double& s : sums) s /= sum;
  return sums;
}

}  // namespace

void assign_adapters(const AdapterChoice& choice, Workload& workload) {
  if (choice.num_adapters <= 0) return;
  const std::vector<double> sums = popularity(choice);
  RandomStream random(choice.seed, kPurpose);
  std::unordered_map<uint64_t, int32_t> of_prefix;
  for (SimRequest& request : workload.requests) {
    const auto first = std::lower_bound(sums.begin(), sums.end(), random.uniform());
    const auto drawn = static_cast<int32_t>(
        std::min<ptrdiff_t>(first - sums.begin(), choice.num_adapters - 1) + 1);
    if (request.previous >= 0) {
      request.adapter = workload.requests[static_cast<size_t>(request.previous)].adapter;
    } else if (request.prefix != 0) {
      request.adapter = of_prefix.try_emplace(request.prefix, drawn).first->second;
    } else {
      request.adapter = drawn;
    }
  }
}

}  // namespace quire::sim
