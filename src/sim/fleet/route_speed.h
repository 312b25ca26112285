// route_speed() reads off a replica's timer what a router has to know of its speed.
#pragma once

#include "route/router.h"
#include "sim/replica/replica.h"

namespace quire::sim {

// `kv_tokens` is what the cache holds; 0: not known.
RouteSpeed route_speed(const ReplicaSpec& spec, int64_t kv_tokens);

}  // namespace quire::sim
