// Several engines of one model behind one door (data parallel): each request goes whole to one of
// them, the one that has probably computed the beginning of its prompt or else the least loaded
// (route/router.h). Which one it is changes no bit of the answer.
//
//   auto engine = make_replicated_engine(std::move(engines), {.routing = Routing::kPrefixAware});
//
// Where the door speaks of the engine it means all of them: it is healthy while all are, pauses,
// sleeps, drains and aborts all of them, and its counters are sums.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/async_engine.h"
#include "route/router.h"

namespace quire {

// Whether what one engine has read of an adapter serves the others, whose weights are the same memory,
// or each engine reads its own.
enum class ReplicaAdapters : uint8_t { kShared, kOwn };

// `engines` are at least one, of one model and with the same options.
std::unique_ptr<AsyncEngine> make_replicated_engine(
    std::vector<std::unique_ptr<AsyncEngine>> engines, const RouterOptions& options,
    ReplicaAdapters adapters = ReplicaAdapters::kShared);

// Returns the sum of what engines have counted. Gauges that are shares are those of the fullest
// engine, constants those of the first, and recent percentiles those of the slowest. A request that
// one engine refused and another took counts as refused, too, because attempts are counted.
EngineStats sum_of(const std::vector<EngineStats>& stats);

}  // namespace quire
