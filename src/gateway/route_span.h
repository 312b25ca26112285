// A RouteSpan is the router's span of a request. The server that gets the request makes its own
// span a child of it.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "server/http/http_types.h"
#include "server/telemetry/exporter.h"

namespace quire::gateway {

// It is used on the gateway's thread only. The destructor gives the span to the exporter.
class RouteSpan {
 public:
  // Begins a span and writes it into the headers of the request as the parent of the servers'
  // spans. Returns null when the client wants no span or when none is exported.
  static std::shared_ptr<RouteSpan> begin(const std::shared_ptr<server::OtlpExporter>& exporter,
                                          server::HttpRequest& request);
  RouteSpan(std::shared_ptr<server::OtlpExporter> exporter, server::Span span);
  ~RouteSpan();
  RouteSpan(const RouteSpan&) = delete;
  RouteSpan& operator=(const RouteSpan&) = delete;

  // Sets the backend of the span; the last call counts. `is_prefill` says that the backend has the
  // first leg.
  void note_backend(const std::string& authority, bool is_prefill);
  void note_first_byte();
  void note_status(int status) { status_ = status; }
  void note_failure(const std::string& why);

 private:
  const std::shared_ptr<server::OtlpExporter> exporter_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  server::Span span_;
  std::string backend_, prefill_backend_;
  int64_t num_attempts_ = 0;
  double first_byte_s_ = -1;
  int status_ = 0;  // 0: the client left before its answer
};

}  // namespace quire::gateway
