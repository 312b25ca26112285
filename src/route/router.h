// A Router decides which engine gets a request. One thread may use it.
//
// Least-delay weighs a cached prefix against load in one unit: the time that all requests together
// lose when this one goes to an engine. The time has these parts:
//
//   its own wait        the prefills queued there, then the part of its prompt that is not cached
//   the others' wait    that same prefill, for every request that runs there
//   slower decodes      of the others by this one, and of this one by the others
//   waiting for blocks  when its tokens do not fit beside those that are there
//
// So a prefix attracts a request to its engine exactly as far as computing it again elsewhere would
// cost more, and there is no threshold to set.
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
  kSession,        // one engine per session, and another only when it is gone; requests without a
                   // session at random
  kLeastRequests,  // fewest requests that have not ended
  kLeastTokens,    // fewest tokens of such requests
  kPowerOfTwo,     // the less loaded (requests) of two at random
  kPrefixAware,    // the longest cached prefix, unless its engine is much more loaded than another
  kLeastDelay,     // see above
  kOracle,         // least-delay with known output lengths, which no real router has
};
std::string_view to_string(Routing routing);
Result<Routing> parse_routing(std::string_view name);
// Returns "random, round-robin, …" for --help and errors.
std::string routing_names();
// Returns whether the choice depends on the engines' load.
bool reads_state(Routing routing);
// reads_caches() returns whether the choice depends on what the engines have cached, reads_speed()
// whether it depends on how fast they are.
bool reads_caches(Routing routing);
bool reads_speed(Routing routing);

struct RouterOptions {
  Routing routing = Routing::kLeastRequests;
  // The loads are read this often; in between the router uses the last values. 0: it always uses
  // the current values.
  int64_t stale_ns = 0;
  // Estimates what engines have cached from the requests that were sent to them (prefix_index.h),
  // as a router of servers must do, instead of looking into the caches.
  bool remembers_prefixes = false;
  // With prefix-aware routing the least loaded engine is chosen when the preferred one has over
  // `imbalance_requests` requests more and over `imbalance_ratio` times as many.
  int32_t imbalance_requests = 16;
  double imbalance_ratio = 1.5;
  uint64_t seed = 0;
};

// RouteLoad is the load of an engine, from the router's own records or from the engine's metrics.
struct RouteLoad {
  int32_t num_requests = 0;  // sent to the engine and not ended
  int64_t num_tokens = 0;    // of these requests, prompts and outputs
  int64_t num_prompt_tokens = 0;
  double prefill_us = 0;          // time for the rest of the prompts without a first token
  int64_t num_outputs_left = -1;  // tokens still to generate; -1: not known
};

// RouteSpeed is how fast an engine is, from its cost model or as measured.
struct RouteSpeed {
  double prefill_us_per_token = 0;
  double prefill_us_per_pair = 0;    // for each pair of a prompt token and an earlier token
  double decode_us_per_request = 0;  // added to a step by one more request
  double decode_us_per_context_token = 0;
  double step_us = 0;     // of a single request
  int64_t kv_tokens = 0;  // capacity of its cache; 0: not known

  // Returns the time to compute `num_tokens` after `context` earlier tokens.
  double prefill_us(double num_tokens, double context) const {
    return num_tokens * (prefill_us_per_token + prefill_us_per_pair * (context + num_tokens / 2));
  }
};

// A RouteTarget is an engine that the router may choose.
struct RouteTarget {
  int32_t replica = 0;
  // Sessions go by the name. Routers that know an engine by one name send a session to the same
  // engine, whatever else they know.
  uint32_t name = 0;
  RouteLoad load;
  const RouteSpeed* speed = nullptr;  // only least-delay and the oracle read it
};

struct RouteRequest {
  int32_t session = -1;  // -1: none
  int32_t prompt_tokens = 0;
  int32_t output_tokens = 0;  // only the oracle reads it
};

struct RouteChoice {
  size_t target = 0;      // index into the candidates
  double prefill_us = 0;  // of the prompt there, for RouteLoad; 0: no speed is known
};

class Router {
 public:
  explicit Router(const RouterOptions& options);

  // `targets` must not be empty. `probe(replica)` returns how many tokens of the prompt the replica
  // has cached.
  RouteChoice choose(std::span<const RouteTarget> targets, const RouteRequest& request,
                     const std::function<int32_t(int32_t replica)>& probe);
  // Tells the router the length of an output, from which it guesses the length of the next ones.
  void note_output(int32_t num_tokens);

 private:
  template <typename Key>
  size_t smallest(std::span<const RouteTarget> targets, Key key);
  size_t choose_by_session(std::span<const RouteTarget> targets, int32_t session) const;
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
