#include "server/http/http_metrics.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "server/http/metrics_text.h"

namespace quire::server {
namespace {

const std::vector<double>& duration_bounds() {
  static const std::vector<double> bounds = {0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                             0.5,   1,     2.5,  5,     10,   30,  60};
  return bounds;
}

// Probes and scrapes are so many that they would hide the rest.
bool is_excluded(std::string_view handler) {
  static constexpr std::array<std::string_view, 7> kOps = {
      "/metrics", "/health", "/ping", "/live", "/ready", "/load", "/version"};
  return std::find(kOps.begin(), kOps.end(), handler) != kOps.end();
}

// Unknown methods share one name, so that clients cannot create series.
std::string_view known_method(std::string_view method) {
  for (const std::string_view known : {"GET", "POST", "HEAD", "OPTIONS"}) {
    if (method == known) return known;
  }
  return "OTHER";
}

}  // namespace

void HttpMetrics::record(std::string_view handler, std::string_view method, int status,
                         double seconds) {
  if (is_excluded(handler)) return;
  const std::string verb(known_method(method));
  const std::string group = std::to_string(status / 100) + "xx";
  const std::lock_guard lock(mutex_);
  ++counts_[{std::string(handler), verb, group}];
  auto [entry, is_new] = seconds_.try_emplace({std::string(handler), verb});
  if (is_new) entry->second = Histogram(duration_bounds());
  entry->second.observe(seconds);
}

std::string HttpMetrics::text() const {
  const std::lock_guard lock(mutex_);
  MetricsWriter out;
  out.family("http_requests_total", "counter",
             "HTTP exchanges by handler, method and status group.");
  for (const auto& [key, count] : counts_) {
    const auto& [handler, method, status] = key;
    const std::array<MetricLabel, 3> labels = {
        MetricLabel{"handler", handler}, {"status", status}, {"method", method}};
    out.sample("http_requests_total", labels, static_cast<double>(count));
  }
  out.family("http_request_duration_seconds", "histogram", "Time until the answer was complete.");
  for (const auto& [key, histogram] : seconds_) {
    const std::array<MetricLabel, 2> labels = {MetricLabel{"handler", key.first},
                                               {"method", key.second}};
    out.histogram("http_request_duration_seconds", labels, histogram);
  }
  return out.take();
}

}  // namespace quire::server
