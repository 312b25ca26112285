// A Router decides which engine takes a request. One thread uses it.
//
// Least-delay weighs a cached prefix against load in one unit, the time that all requests together
// lose when this one goes to an engine:
//
//   its own wait        prefills queued there, then what the cache lacks of its prompt
//   the others' wait    that same prefill, for everybody who runs there
//   slower decodes      of the others by this one, and of this one by the others
//   waiting for blocks  where its tokens do not fit beside those that are there
//
// So a prefix pulls a request towards its engine exactly as far as computing it again elsewhere
// would cost more, and no threshold has to be set.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

enum class Routing : uint8_t {
  kRandom,
  kRoundRobin,
  kSession,        // one engine per session; requests without one at random
  kLeastRequests,  // fewest requests that have not ended
  kLeastTokens,    // fewest tokens of such requests
  kPowerOfTwo,     // the less loaded (requests) of two at random
  kPrefixAware,    // the longest cached prefix, unless its engine is much more loaded than another
  kLeastDelay,     // see above
  kOracle,         // least-delay that knows how long outputs will be, which no router can
};
std::string_view to_string(Routing routing);
Result<Routing> parse_routing(std::string_view name);
// Returns "random, round-robin, …", as --help and errors show them.
std::string routing_names();
// Returns whether the choice depends on how the engines stand.
bool reads_state(Routing routing);
// Returns whether the choice depends on what their caches hold, and on how fast they are.
bool reads_caches(Routing routing);
bool reads_speed(Routing routing);

struct RouterOptions {
  Routing routing = Routing::kLeastRequests;
  // Loads are looked at this often, and in between the router sees the last look. 0: it always sees
  // them as they are.
  int64_t stale_ns = 0;
  // What engines have cached is told by what they were sent (prefix_index.h), as a router of servers
  // must tell it, and not by a look into them.
  bool remembers_prefixes = false;
  // With prefix-aware routing the least loaded engine is taken beyond `imbalance_requests` and
  // `imbalance_ratio` times the least load.
  int32_t imbalance_requests = 16;
  double imbalance_ratio = 1.5;
  uint64_t seed = 0;
};

// RouteLoad is what a router knows of an engine, from its own books or from the engine's metrics.
struct RouteLoad {
  int32_t num_requests = 0;  // sent there and not ended
  int64_t num_tokens = 0;    // of those, prompts and outputs
  int64_t num_prompt_tokens = 0;
  double prefill_us = 0;          // of those without a first token: what their prompts still take
  int64_t num_outputs_left = -1;  // tokens that they will still generate; -1: not known
};

// RouteSpeed is how fast an engine is, from its cost model or as measured.
struct RouteSpeed {
  double prefill_us_per_token = 0;
  double prefill_us_per_pair = 0;    // of a prompt token and a token before it
  double decode_us_per_request = 0;  // that one more request adds to a step
  double decode_us_per_context_token = 0;
  double step_us = 0;     // of one request alone
  int64_t kv_tokens = 0;  // that its cache holds; 0: not known

  // Returns what computing `num_tokens` behind `context` others takes.
  double prefill_us(double num_tokens, double context) const {
    return num_tokens * (prefill_us_per_token + prefill_us_per_pair * (context + num_tokens / 2));
  }
};

// A RouteTarget is a candidate as the router sees it.
struct RouteTarget {
  int32_t replica = 0;
  RouteLoad load;
  const RouteSpeed* speed = nullptr;  // only least-delay and the oracle ask
};

struct RouteRequest {
  int32_t session = -1;  // -1: none
  int32_t prompt_tokens = 0;
  int32_t output_tokens = 0;  // only the oracle asks
};

struct RouteChoice {
  size_t target = 0;      // index into the candidates
  double prefill_us = 0;  // of its prompt there, for RouteLoad; 0 where no speed is known
};

class Router {
 public:
  explicit Router(const RouterOptions& options);

  // `targets` is not empty. `probe(replica)` gives the cached tokens of the prompt there.
  RouteChoice choose(std::span<const RouteTarget> targets, const RouteRequest& request,
                     const std::function<int32_t(int32_t replica)>& probe);
  // Tells how long an output was, from which the next ones are guessed.
  void note_output(int32_t num_tokens);

 private:
  template <typename Key>
  size_t smallest(std::span<const RouteTarget> targets, Key key);
  size_t choose_by_prefix(std::span<const RouteTarget> targets,
                          const std::function<int32_t(int32_t replica)>& probe);
  RouteChoice choose_by_delay(std::span<const RouteTarget> targets, const RouteRequest& request,
                              const std::function<int32_t(int32_t replica)>& probe);
  double delay_us(const RouteTarget& target, const RouteRequest& request, double prefill_us) const;
  uint64_t random_below(uint64_t n);

  RouterOptions options_;
  uint64_t turn_ = 0;
  uint64_t num_drawn_ = 0;
  double mean_output_ = 128;
};

}  // namespace quire
