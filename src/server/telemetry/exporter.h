// Sends spans and metrics to a collector by OTLP/HTTP, from a thread of its own. Nobody waits for it:
// spans beyond the queue's bound, or of batches that the collector does not take, are counted and
// dropped.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/result.h"
#include "server/telemetry/exporter_options.h"
#include "server/telemetry/otlp.h"

namespace quire::server {

struct OtlpEndpoint {
  std::string host, port, target;
};
// Of http://HOST[:PORT][/PATH]; `path` stands where there is none. kInvalidArgument: it is written
// otherwise.
Result<OtlpEndpoint> parse_otlp_endpoint(const std::string& url, std::string_view path);

class OtlpExporter {
 public:
  // kInvalidArgument: an endpoint is not written as it should be.
  static Result<std::unique_ptr<OtlpExporter>> create(ExporterOptions options);
  explicit OtlpExporter(ExporterOptions options) : options_(std::move(options)) {}
  ~OtlpExporter() { stop(); }

  // `metrics_text`: what /metrics says; called on the exporter's thread.
  void start(std::function<std::string()> metrics_text);
  // Sends what is queued, within the time of one request. Idempotent.
  void stop();
  bool wants_spans() const { return !options_.traces_endpoint.empty(); }
  // Any thread; never waits for the network.
  void add(Span span);
  // Families about the exporter, in the text format of /metrics.
  std::string metrics_text() const;

 private:
  void run();
  void send_spans(std::deque<Span> spans);
  void send_metrics();

  const ExporterOptions options_;
  OtlpEndpoint traces_, metrics_;
  std::function<std::string()> metrics_source_;
  int64_t start_ns_ = 0;
  std::atomic<int64_t> num_sent_ = 0, num_dropped_ = 0, num_failures_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Span> queue_;  // guarded by mutex_, as the next
  bool is_stopped_ = false;
  std::thread thread_;
};

}  // namespace quire::server
