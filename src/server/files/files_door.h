// /v1/files and /v1/batches, as OpenAI has them.
#pragma once

#include <cstdint>

#include "server/files/batch_queue.h"
#include "server/http/http_types.h"
#include "server/http/server_options.h"

namespace quire::server {

struct FilesContext {
  BatchQueue& batches;
  const ServerLimits& limits;
  int64_t created_s = 0;  // Unix time
};

// Of /v1/files and what lies below, and of /v1/batches.
HttpResponse serve_files(const HttpRequest& request, const FilesContext& context);
HttpResponse serve_batches(const HttpRequest& request, const FilesContext& context);

}  // namespace quire::server
