// These options say where spans and metrics are sent, and how many may wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace quire::server {

struct ExporterOptions {
  std::string traces_endpoint;   // empty: no spans are sent
  std::string metrics_endpoint;  // empty: no metrics are sent
  std::string service_name = "quire";
  std::string
      ca_file;  // PEM, authorities that https endpoints are checked against; empty: the system's
  std::string
      headers;  // of every request: NAME=VALUE,… with %XX in values (OTEL_EXPORTER_OTLP_HEADERS)
  int64_t metrics_interval_ms = 15'000;
  int64_t batch_delay_ms = 500;  // how long a span waits for others
  size_t max_queued = 2048;
  size_t max_batch = 512;
  int64_t timeout_ms = 5'000;  // per request

  bool is_on() const { return !traces_endpoint.empty() || !metrics_endpoint.empty(); }
};

}  // namespace quire::server
