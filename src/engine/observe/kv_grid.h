// make_kv_grid() makes the picture of all KV blocks that /quire/kv/blocks returns.
#pragma once

#include <functional>
#include <string>

#include "base/ids.h"
#include "engine/observe/engine_stats.h"
#include "kv/kv_manager.h"

namespace quire {

// `owner_of` returns the external id of the client request that a request belongs to, or null if
// there is none. Requests with the same pointer have the same owner, so the string must not move.
KvGridSnapshot make_kv_grid(const KvManager& kv,
                            const std::function<const std::string*(RequestId)>& owner_of);

}  // namespace quire
