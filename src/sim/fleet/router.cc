#include "sim/fleet/router.h"

#include <algorithm>
#include <iterator>

#include "sim/workload/token_content.h"

namespace quire::sim {
namespace {

constexpr std::string_view kNames[] = {"random",         "round-robin",  "session",
                                       "least-requests", "least-tokens", "power-of-two",
                                       "prefix-aware"};
constexpr uint64_t kRouterStream = 0x726f75746572u;

}  // namespace

std::string_view to_string(Routing routing) { return kNames[static_cast<size_t>(routing)]; }

Result<Routing> parse_routing(std::string_view name) {
  const auto it = std::find(std::begin(kNames), std::end(kNames), name);
  if (it == std::end(kNames)) {
    return invalid_argument(
        "routing: expected random, round-robin, session, least-requests, least-tokens, "
        "power-of-two or prefix-aware, got '{}'",
        name);
  }
  return static_cast<Routing>(it - std::begin(kNames));
}

bool reads_state(Routing routing) { return routing >= Routing::kLeastRequests; }

Router::Router(const RouterOptions& options)
    : options_(options), random_(options.seed, kRouterStream) {}

// Ties go round, so that equal replicas share equally.
template <typename Key>
size_t Router::smallest(std::span<const RouteTarget> targets, Key key) {
  const size_t first = static_cast<size_t>(turn_++ % targets.size());
  size_t best = first;
  for (size_t i = 1; i < targets.size(); ++i) {
    size_t at = first + i;
    if (at >= targets.size()) at -= targets.size();
    if (key(targets[at]) < key(targets[best])) best = at;
  }
  return best;
}

size_t Router::choose_by_prefix(std::span<const RouteTarget> targets,
                                const std::function<int32_t(int32_t replica)>& probe) {
  const auto requests = [](const RouteTarget& t) { return t.load.num_requests; };
  const size_t least = smallest(targets, requests);
  size_t best = least;
  int32_t longest = 0;
  for (size_t i = 0; i < targets.size(); ++i) {
    const int32_t hit = probe(targets[i].replica);
    const bool better = hit > longest || (hit == longest && hit > 0 &&
                                          requests(targets[i]) < requests(targets[best]));
    if (!better) continue;
    longest = hit;
    best = i;
  }
  const int32_t low = requests(targets[least]);
  const int32_t high = requests(targets[best]);
  const bool overloaded = high - low > options_.imbalance_requests &&
                          static_cast<double>(high) > options_.imbalance_ratio * low;
  return overloaded ? least : best;
}

size_t Router::choose(std::span<const RouteTarget> targets, int32_t session,
                      const std::function<int32_t(int32_t replica)>& probe) {
  const auto requests = [](const RouteTarget& t) { return t.load.num_requests; };
  const size_t n = targets.size();
  switch (options_.routing) {
    case Routing::kRoundRobin:
      return static_cast<size_t>(turn_++ % n);
    case Routing::kSession:
      if (session < 0) break;
      return static_cast<size_t>(stream_id(kRouterStream, static_cast<uint64_t>(session)) % n);
    case Routing::kLeastRequests:
      return smallest(targets, requests);
    case Routing::kLeastTokens:
      return smallest(targets, [](const RouteTarget& t) { return t.load.num_tokens; });
    case Routing::kPowerOfTwo: {
      const size_t a = random_.below(n);
      const size_t b = random_.below(n);
      return requests(targets[b]) < requests(targets[a]) ? b : a;
    }
    case Routing::kPrefixAware:
      return choose_by_prefix(targets, probe);
    case Routing::kRandom:
      break;
  }
  return random_.below(n);
}

}  // namespace quire::sim
