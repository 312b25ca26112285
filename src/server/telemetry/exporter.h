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
#include "net/exchange.h"
#include "server/telemetry/exporter_options.h"
#include "server/telemetry/otlp.h"

namespace quire::server {

// Reads http://HOST[:PORT][/PATH], and https likewise. `path` is taken where there is none, and
// 4318 for the port of http. kInvalidArgument: it is written otherwise.
Result<net::Url> parse_otlp_endpoint(const std::string& url, std::string_view path);

// Of "NAME=VALUE,NAME=VALUE". kInvalidArgument: it is written otherwise, or is no header.
Result<net::HeaderList> parse_otlp_headers(std::string_view text);

class OtlpExporter {
 public:
  // kInvalidArgument: an endpoint or a header is not written as it should be, or the file of
  // authorities cannot be read.
  static Result<std::unique_ptr<OtlpExporter>> create(ExporterOptions options);
  explicit OtlpExporter(ExporterOptions options) : options_(std::move(options)) {}
  ~OtlpExporter() { stop(); }

  // `metrics_text` returns what /metrics says; it is called on the exporter's thread.
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
  Status post(const net::Url& to, std::string body) const;

  const ExporterOptions options_;
  net::Url traces_, metrics_;
  net::HeaderList headers_;
  net::TlsTrust trust_;  // null: no endpoint speaks https
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
