// ReplicaRouter decides which of several engines takes a request, by what they were sent before.
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

// What one engine has been given and has not answered. Any thread may call it.
struct ReplicaLoad {
  std::atomic<int32_t> num_requests{0};
  std::atomic<int64_t> num_tokens{0};

  void add(int32_t requests, int64_t tokens) {
    num_requests.fetch_add(requests, std::memory_order_relaxed);
    num_tokens.fetch_add(tokens, std::memory_order_relaxed);
  }
};

// Any thread may call it.
class ReplicaRouter {
 public:
  ReplicaRouter(size_t num_engines, const RouterOptions& options);

  struct Choice {
    std::vector<size_t> order;  // of engines: the best, then the others as they are to be tried
    std::vector<uint64_t> chain;
  };
  Choice choose(const GenerationRequest& request);
  // The engine has taken the request of the choice, so that it will know its prompt.
  void note(const Choice& choice, size_t engine);
  // Shared with the streams of the engine's answers, which may outlive this.
  const std::shared_ptr<ReplicaLoad>& load(size_t engine) const { return loads_[engine]; }
  // The engines have lost their caches.
  void forget_prefixes();

 private:
  std::vector<std::shared_ptr<ReplicaLoad>> loads_;
  const bool by_prefix_;
  std::mutex mutex_;  // of what follows
  Router router_;
  PrefixIndex index_;
};

}  // namespace quire
