// These functions write spans and metrics in the JSON form of OTLP/HTTP (opentelemetry-proto, 1.x).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "server/telemetry/trace_context.h"

namespace quire::server {

struct Span {
  using Value = std::variant<std::string, int64_t, double>;
  TraceContext trace;
  std::string span_id;
  std::string name;
  int64_t start_ns = 0;  // Unix time
  int64_t end_ns = 0;
  bool has_failed = false;
  std::string error;  // message, if it has failed
  std::vector<std::pair<std::string, Value>> attributes;
};

// Returns the body of a request to /v1/traces.
std::string otlp_traces(std::span<const Span> spans, std::string_view service_name);
// Returns the body of a request to /v1/metrics, from the Prometheus text of /metrics. Counters
// become monotonic sums since `start_ns`; histograms keep their buckets.
std::string otlp_metrics(std::string_view prometheus_text, std::string_view service_name,
                         int64_t start_ns, int64_t now_ns);

}  // namespace quire::server
