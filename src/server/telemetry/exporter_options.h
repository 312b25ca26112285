// Where spans and metrics go, and how many may wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace quire::server {

struct ExporterOptions {
  std::string traces_endpoint;   // empty: no spans are sent
  std::string metrics_endpoint;  // likewise
  std::string service_name = "quire";
  int64_t metrics_interval_ms = 15'000;
  int64_t batch_delay_ms = 500;  // spans wait this long for others
  size_t max_queued = 2048;
  size_t max_batch = 512;
  int64_t timeout_ms = 5'000;  // of one request

  bool is_on() const { return !traces_endpoint.empty() || !metrics_endpoint.empty(); }
};

}  // namespace quire::server
