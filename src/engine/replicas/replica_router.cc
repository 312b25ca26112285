#include "engine/replicas/replica_router.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

namespace quire {
namespace {

// Prefixes are compared in pieces of this many tokens.
constexpr size_t kPieceTokens = 64;
// Pieces remembered per engine: 65,536 pieces are 4 million tokens, in 4 MiB.
constexpr size_t kKnownPieces = 65'536;

// Returns the chain of a request's pieces. Prompts of different adapters and tenants share no KV,
// so they get different chains.
std::vector<uint64_t> chain_of(const GenerationRequest& request) {
  std::string keys = request.cache_keys.salt;
  if (request.adapter != nullptr) keys += '\0' + request.adapter->content_key;
  return prefix_chain(std::hash<std::string>()(keys),
                      std::span<const int32_t>(request.prompt_token_ids), kPieceTokens);
}

}  // namespace

ReplicaRouter::ReplicaRouter(size_t num_engines, const RouterOptions& options)
    : by_prefix_(options.routing == Routing::kPrefixAware), router_(options), index_(kKnownPieces) {
  for (size_t i = 0; i < num_engines; ++i) loads_.push_back(std::make_shared<ReplicaLoad>());
}

ReplicaRouter::Choice ReplicaRouter::choose(const GenerationRequest& request) {
  std::vector<uint64_t> chain = by_prefix_ ? chain_of(request) : std::vector<uint64_t>();
  std::vector<RouteTarget> targets;
  for (size_t i = 0; i < loads_.size(); ++i) {
    targets.push_back({.replica = static_cast<int32_t>(i),
                       .name = static_cast<uint32_t>(i),
                       .load = {.num_requests = loads_[i]->num_requests.load(),
                                .num_tokens = loads_[i]->num_tokens.load()}});
  }
  const auto known_tokens = [&](int32_t replica) {
    return index_.match(chain, replica) * static_cast<int32_t>(kPieceTokens);
  };
  const std::lock_guard lock(mutex_);
  const size_t chosen =
      router_
          .choose(targets, {.prompt_tokens = static_cast<int32_t>(request.prompt_token_ids.size())},
                  known_tokens)
          .target;
  std::vector<size_t> order = {chosen};
  for (size_t i = 0; i < loads_.size(); ++i) {
    if (i != chosen) order.push_back(i);
  }
  std::stable_sort(order.begin() + 1, order.end(), [&](size_t a, size_t b) {
    return targets[a].load.num_requests < targets[b].load.num_requests;
  });
  return {.order = std::move(order), .chain = std::move(chain)};
}

void ReplicaRouter::note(const Choice& choice, size_t engine) {
  if (!by_prefix_) return;
  const std::lock_guard lock(mutex_);
  index_.note(choice.chain, static_cast<int32_t>(engine));
}

void ReplicaRouter::forget_prefixes() {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < loads_.size(); ++i) index_.forget(static_cast<int32_t>(i));
}

}  // namespace quire
