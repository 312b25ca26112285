// HttpMetrics counts HTTP exchanges: http_requests_total{handler,method,status} and
// http_request_duration_seconds.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>

#include "engine/observe/engine_stats.h"

namespace quire::server {

class HttpMetrics {
 public:
  // `handler` is a route's pattern, never the path that a client sent, so that the number of series
  // is bounded. Any thread may call it.
  void record(std::string_view handler, std::string_view method, int status, double seconds);
  // Returns the Prometheus text of both families. Any thread may call it.
  std::string text() const;

 private:
  using CountKey =
      std::tuple<std::string, std::string, std::string>;  // handler, method, status group
  using TimeKey = std::pair<std::string, std::string>;    // handler, method

  mutable std::mutex mutex_;
  std::map<CountKey, uint64_t> counts_;   // guarded by mutex_
  std::map<TimeKey, Histogram> seconds_;  // guarded by mutex_
};

}  // namespace quire::server
