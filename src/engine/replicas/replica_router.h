// ReplicaRouter chooses which of several engines takes a request, by the requests sent to each
// before.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "engine/output/generation.h"
#include "route/prefix_index.h"
#include "route/router.h"

namespace quire {

// The unfinished requests of one engine. Any thread may use it.
struct ReplicaLoad {
  std::atomic<int32_t> num_requests{0};
  std::atomic<int64_t> num_tokens{0};

  void add(int32_t requests, int64_t tokens) {
    num_requests.fetch_add(requests, std::memory_order_relaxed);
    num_tokens.fetch_add(tokens, std::memory_order_relaxed);
  }
};

// Any thread may use it.
class ReplicaRouter {
 public:
  ReplicaRouter(size_t num_engines, const RouterOptions& options);

  struct Choice {
    std::vector<size_t> order;  // all engines in the order in which to try them, the best first
    std::vector<uint64_t> chain;
  };
  Choice choose(const GenerationRequest& request);
  // Records that `engine` has taken the request of the choice, so that it will have its prompt's
  // KV.
  void note(const Choice& choice, size_t engine);
  // The load is shared with the streams of the engine's answers, which may outlive this.
  const std::shared_ptr<ReplicaLoad>& load(size_t engine) const { return loads_[engine]; }
  // Forgets all prefixes, since the engines have lost their caches.
  void forget_prefixes();

 private:
  std::vector<std::shared_ptr<ReplicaLoad>> loads_;
  const bool by_prefix_;
  std::mutex mutex_;  // protects the members below
  Router router_;
  PrefixIndex index_;
};

}  // namespace quire
