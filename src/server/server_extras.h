// ServerExtras are the optional parts of a server besides its model.
#pragma once

#include <cstdint>
#include <string>

#include "server/telemetry/exporter_options.h"

namespace quire {

struct ServerExtras {
  // The directory for files that clients upload to /v1/files and for their batches. When it is
  // empty, these routes do not exist.
  std::string files_dir;
  int64_t files_bytes = 4ll << 30;  // sum over all files; answers of batches come on top
  int32_t batch_concurrency = 16;   // requests of batches that run at the same time
  // A file of keys with names and limits, in addition to ServerOptions::api_keys; empty: none.
  std::string api_key_file;
  // Where spans of requests and metrics are sent; without endpoints none are sent.
  server::ExporterOptions otlp = {};
};

}  // namespace quire
