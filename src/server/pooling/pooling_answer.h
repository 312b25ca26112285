// pooling_answer() writes the answers of the pooling routes from the engine's outputs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/pooling.h"
#include "server/http/http_types.h"
#include "server/pooling/pooling_request.h"

namespace quire::server {

// `outputs` has one per request of the call. `labels` are those of a classifier, by column.
HttpResponse pooling_answer(const PreparedPooling& call, std::span<const PooledOutput> outputs,
                            const std::vector<std::string>& labels);

}  // namespace quire::server
