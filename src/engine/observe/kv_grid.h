// The picture of all KV blocks, for who looks at the engine from outside.
#pragma once

#include <functional>
#include <string>

#include "base/ids.h"
#include "engine/observe/engine_stats.h"
#include "kv/kv_manager.h"

namespace quire {

// `owner_of` gives the external id of a request's client request, which stays where it is; null:
// nobody owns it. Requests with the same pointer have the same owner.
KvGridSnapshot make_kv_grid(const KvManager& kv,
                            const std::function<const std::string*(RequestId)>& owner_of);

}  // namespace quire
