// What a server has beside its model, where it is told to.
#pragma once

#include <cstdint>
#include <string>

#include "server/telemetry/exporter_options.h"

namespace quire {

struct ServerExtras {
  // The directory for what clients upload to /v1/files and for their batches; when it is empty,
  // there are no such routes.
  std::string files_dir;
  int64_t files_bytes = 4ll << 30;  // of all files together; their batches' answers come beside
  int32_t batch_concurrency = 16;   // requests of batches under way at once
  // Keys with names and limits, beside ServerOptions::api_keys; empty: none.
  std::string api_key_file;
  // Spans of requests and metrics for a collector; without endpoints none are sent.
  server::ExporterOptions otlp = {};
};

}  // namespace quire
