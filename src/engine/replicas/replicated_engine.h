// Several engines of one model behind one interface (data parallel): each request goes whole to one
// engine, the one that has probably computed the beginning of its prompt, or else the least loaded
// one (route/router.h). The choice does not change the answer in any bit.
//
//   auto engine = make_replicated_engine(std::move(engines), {.routing = Routing::kPrefixAware});
//
// Calls for the engine as a whole apply to all engines: it is healthy while all are, it pauses,
// sleeps, drains and aborts all of them, and its counters are sums.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/async_engine.h"
#include "route/router.h"

namespace quire {

// kShared: an adapter that one engine has read serves the others, whose weights are the same
// memory. kOwn: each engine reads its own.
enum class ReplicaAdapters : uint8_t { kShared, kOwn };

// Precondition: there is at least one engine, and all have the same model and options.
std::unique_ptr<AsyncEngine> make_replicated_engine(
    std::vector<std::unique_ptr<AsyncEngine>> engines, const RouterOptions& options,
    ReplicaAdapters adapters = ReplicaAdapters::kShared);

// Returns the sum of the engines' counters. Gauges that are shares are those of the fullest engine,
// constants those of the first, and recent percentiles those of the slowest. A request that one
// engine refused and another took counts as refused too, because attempts are counted.
EngineStats sum_of(const std::vector<EngineStats>& stats);

}  // namespace quire
