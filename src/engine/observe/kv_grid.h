// make_kv_grid() makes the picture of all KV blocks that /quire/kv/blocks answers with.
#pragma once

#include <functional>
#include <string>

#include "base/ids.h"
#include "engine/observe/engine_stats.h"
#include "kv/kv_manager.h"

namespace quire {

// `owner_of` returns the external id of a request's client request, or null when nobody owns it.
// The string must stay where it is: requests with the same pointer have the same owner.
KvGridSnapshot make_kv_grid(const KvManager& kv,
                            const std::function<const std::string*(RequestId)>& owner_of);

}  // namespace quire
