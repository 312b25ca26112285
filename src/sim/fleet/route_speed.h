// route_speed() computes from a replica's timer what a router needs to know about its speed.
#pragma once

#include "route/router.h"
#include "sim/replica/replica.h"

namespace quire::sim {

// `kv_tokens` is the number of tokens that the cache holds; 0 means unknown.
RouteSpeed route_speed(const ReplicaSpec& spec, int64_t kv_tokens);

}  // namespace quire::sim
