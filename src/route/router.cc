#include "route/router.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/rng.h"

namespace quire {
namespace {

constexpr std::string_view kNames[] = {"random",         "round-robin",  "session",
                                       "least-requests", "least-tokens", "power-of-two",
                                       "prefix-aware",   "least-delay",  "oracle"};
constexpr uint32_t kRouterStream = 0x726f7574u;
constexpr double kWaitWeight = 2;       // waiting for an answer is worse than a slower answer
constexpr double kOutputMemory = 0.05;  // weight of the latest output in the mean

}  // namespace

std::string_view to_string(Routing routing) { return kNames[static_cast<size_t>(routing)]; }

std::string routing_names() {
  std::string names;
  for (const std::string_view& name : kNames) {
    if (!names.empty()) names += &name == std::prev(std::end(kNames)) ? " or " : ", ";
    names += name;
  }
  return names;
}

Result<Routing> parse_routing(std::string_view name) {
  const auto* const it = std::find(std::begin(kNames), std::end(kNames), name);
  if (it == std::end(kNames)) {
    return invalid_argument("routing: expected {}, got '{}'", routing_names(), name);
  }
  return static_cast<Routing>(it - std::begin(kNames));
}

bool reads_state(Routing routing) { return routing >= Routing::kLeastRequests; }
bool reads_caches(Routing routing) { return routing >= Routing::kPrefixAware; }
bool reads_speed(Routing routing) { return routing >= Routing::kLeastDelay; }

Router::Router(const RouterOptions& options) : options_(options) {}

void Router::note_output(int32_t num_tokens) {
  mean_output_ += kOutputMemory * (num_tokens - mean_output_);
}

uint64_t Router::random_below(uint64_t n) {
  const auto words =
      philox4x32(options_.seed, {static_cast<uint32_t>(num_drawn_),
                                 static_cast<uint32_t>(num_drawn_ >> 32), kRouterStream, 0});
  ++num_drawn_;
  return (uint64_t{words[0]} << 32 | words[1]) % n;
}

// Ties are broken in turn, so that equal engines get equal shares.
template <typename Key>
size_t Router::smallest(std::span<const RouteTarget> targets, Key key) {
  const size_t first = static_cast<size_t>(turn_++ % targets.size());
  size_t best = first;
  auto best_key = key(targets[first]);
  for (size_t i = 1; i < targets.size(); ++i) {
    size_t at = first + i;
    if (at >= targets.size()) at -= targets.size();
    const auto other = key(targets[at]);
    if (!(other < best_key)) continue;
    best = at;
    best_key = other;
  }
  return best;
}

// This is rendezvous hashing (Thaler and Ravishankar, "Using name-based mappings to increase hit
// rates", 1998): each pair of a session and an engine has a weight, and the heaviest engine is
// chosen. So an engine that goes takes only its own sessions away, and one that comes takes only
// its share.
size_t Router::choose_by_session(std::span<const RouteTarget> targets, int32_t session) const {
  size_t best = 0;
  uint64_t most = 0;
  for (size_t i = 0; i < targets.size(); ++i) {
    const auto words = philox4x32(
        options_.seed, {static_cast<uint32_t>(session), targets[i].name, kRouterStream, 1});
    const uint64_t weight = uint64_t{words[0]} << 32 | words[1];
    if (i > 0 && weight <= most) continue;
    best = i;
    most = weight;
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

// Returns the time that all requests together lose when the request goes there.
double Router::delay_us(const RouteTarget& target, const RouteRequest& request,
                        double prefill_us) const {
  const RouteLoad& load = target.load;
  const RouteSpeed& speed = *target.speed;
  const double others = load.num_requests;
  const bool knows = load.num_outputs_left >= 0;
  const double output = knows ? request.output_tokens : mean_output_;
  const double context =
      static_cast<double>(load.num_prompt_tokens) + (knows ? 0 : others * output / 2);
  const double their_steps =
      knows ? std::min(static_cast<double>(load.num_outputs_left), others * output)
            : others * output;
  const double own_step_us =
      speed.decode_us_per_request + speed.decode_us_per_context_token * request.prompt_tokens;
  const double their_step_us =
      others * speed.decode_us_per_request + context * speed.decode_us_per_context_token;
  double total_us = kWaitWeight * (load.prefill_us + prefill_us);
  total_us += others * prefill_us;
  total_us += output * their_step_us + their_steps * own_step_us;
  const double too_many = context + request.prompt_tokens - static_cast<double>(speed.kv_tokens);
  if (speed.kv_tokens > 0 && too_many > 0 && context > 0) {
    // Blocks are freed as requests end; all of them are freed within the time that one request
    // stays.
    const double stay_us = load.prefill_us + mean_output_ * (speed.step_us + their_step_us);
    total_us += std::min(1.0, too_many / context) * stay_us;
  }
  return total_us;
}

RouteChoice Router::choose_by_delay(std::span<const RouteTarget> targets,
                                    const RouteRequest& request,
                                    const std::function<int32_t(int32_t replica)>& probe) {
  double best_us = -1;
  RouteChoice best;
  const size_t first = static_cast<size_t>(turn_++ % targets.size());
  for (size_t i = 0; i < targets.size(); ++i) {
    const size_t at = (first + i) % targets.size();
    const RouteTarget& target = targets[at];
    const int32_t hit = std::min(probe(target.replica), request.prompt_tokens);
    const double prefill_us = target.speed->prefill_us(request.prompt_tokens - hit, hit);
    const double us = delay_us(target, request, prefill_us);
    if (best_us >= 0 && us >= best_us) continue;
    best_us = us;
    best = {.target = at, .prefill_us = prefill_us};
  }
  return best;
}

RouteChoice Router::choose(std::span<const RouteTarget> targets, const RouteRequest& request,
                           const std::function<int32_t(int32_t replica)>& probe) {
  const auto requests = [](const RouteTarget& t) { return t.load.num_requests; };
  const size_t n = targets.size();
  switch (options_.routing) {
    case Routing::kRoundRobin:
      return {.target = static_cast<size_t>(turn_++ % n)};
    case Routing::kSession:
      if (request.session < 0) break;
      return {.target = choose_by_session(targets, request.session)};
    case Routing::kLeastRequests:
      return {.target = smallest(targets, requests)};
    case Routing::kLeastTokens:
      return {.target = smallest(targets, [](const RouteTarget& t) { return t.load.num_tokens; })};
    case Routing::kPowerOfTwo: {
      const size_t a = random_below(n);
      const size_t b = random_below(n);
      return {.target = requests(targets[b]) < requests(targets[a]) ? b : a};
    }
    case Routing::kPrefixAware:
      return {.target = choose_by_prefix(targets, probe)};
    case Routing::kLeastDelay:
    case Routing::kOracle:
      return choose_by_delay(targets, request, probe);
    case Routing::kRandom:
      break;
  }
  return {.target = static_cast<size_t>(random_below(n))};
}

}  // namespace quire
