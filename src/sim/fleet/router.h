// A Router decides which replica takes a request. One thread uses it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/fleet/replica.h"
#include "sim/workload/random_stream.h"

namespace quire::sim {

enum class Routing : uint8_t {
  kRandom,
  kRoundRobin,
  kSession,        // one replica per session; requests without one at random
  kLeastRequests,  // fewest requests that have not ended
  kLeastTokens,    // fewest tokens of such requests
  kPowerOfTwo,     // the less loaded (requests) of two at random
  kPrefixAware,    // the longest cached prefix, unless its replica is much more loaded than another
};
std::string_view to_string(Routing routing);
Result<Routing> parse_routing(std::string_view name);
// Returns whether the choice depends on how the replicas stand.
bool reads_state(Routing routing);

struct RouterOptions {
  Routing routing = Routing::kLeastRequests;
  // Loads are looked at this often, and in between the router sees the last look. 0: it always sees
  // them as they are.
  int64_t stale_ns = 0;
  // With prefix-aware routing the least loaded replica is taken beyond `imbalance_requests` and
  // `imbalance_ratio` times the least load.
  int32_t imbalance_requests = 16;
  double imbalance_ratio = 1.5;
  uint64_t seed = 0;
};

// A RouteTarget is a candidate as the router sees it.
struct RouteTarget {
  int32_t replica = 0;
  ReplicaLoad load;
};

class Router {
 public:
  explicit Router(const RouterOptions& options);

  // Returns an index into `targets`, which is not empty. `session` -1 means none. `probe(replica)`
  // gives the cached tokens of the prompt there.
  size_t choose(std::span<const RouteTarget> targets, int32_t session,
                const std::function<int32_t(int32_t replica)>& probe);

 private:
  template <typename Key>
  size_t smallest(std::span<const RouteTarget> targets, Key key);
  size_t choose_by_prefix(std::span<const RouteTarget> targets,
                          const std::function<int32_t(int32_t replica)>& probe);

  RouterOptions options_;
  RandomStream random_;
  uint64_t turn_ = 0;
};

}  // namespace quire::sim
