// ServerState is what the routes of a server share besides its options and its models.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "server/http/http_metrics.h"
#include "server/http/thread_times.h"

namespace quire::server {

class BatchQueue;
class KeyBook;
class ModelHost;
class OtlpExporter;

struct ServerState {
  const std::shared_ptr<ModelHost> models;                 // shared with the program and with calls
  const std::shared_ptr<BatchQueue> batches;               // null: no routes for files and batches
  const std::shared_ptr<KeyBook> keys;                     // null: no keys but those of the options
  const std::shared_ptr<OtlpExporter> exporter = nullptr;  // null: nothing is sent
  std::string openapi = {};                                // set before requests come
  std::atomic<bool> is_draining = false;
  // The time at which /start_profile was called (engine clock); -1: no profile is being made.
  mutable std::atomic<int64_t> profile_begin_us = -1;
  // Shared with the guards of running calls, which may outlive the server by a moment.
  const std::shared_ptr<std::atomic<int64_t>> num_ongoing =
      std::make_shared<std::atomic<int64_t>>(0);
  HttpMetrics http_metrics = {};
  ThreadTimes thread_times = {};  // of the server's own threads; /metrics shows them
};

}  // namespace quire::server
