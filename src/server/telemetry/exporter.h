// OtlpExporter sends spans and metrics to a collector by OTLP/HTTP, from a thread of its own.
// Nobody waits for it: spans are counted and dropped when its queue is full or when the collector
// does not accept them.
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

// Reads http://HOST[:PORT][/PATH], and the same with https. The default of the path is `path`, that
// of the port of http is 4318. kInvalidArgument: the text has another form.
Result<net::Url> parse_otlp_endpoint(const std::string& url, std::string_view path);

// Reads "NAME=VALUE,NAME=VALUE". kInvalidArgument: the text has another form, or is no valid
// header.
Result<net::HeaderList> parse_otlp_headers(std::string_view text);

class OtlpExporter {
 public:
  // kInvalidArgument: an endpoint or a header has a wrong form, or the file of certificate
  // authorities cannot be read.
  static Result<std::unique_ptr<OtlpExporter>> create(ExporterOptions options);
  explicit OtlpExporter(ExporterOptions options) : options_(std::move(options)) {}
  ~OtlpExporter() { stop(); }

  // `metrics_text` returns the text of /metrics. It is called on the exporter's thread.
  void start(std::function<std::string()> metrics_text);
  // Sends the queued spans, within the timeout of one request. Idempotent.
  void stop();
  bool wants_spans() const { return !options_.traces_endpoint.empty(); }
  // Any thread may call it. It never waits for the network.
  void add(Span span);
  // Returns the exporter's own metrics, in the text format of /metrics.
  std::string metrics_text() const;

 private:
  void run();
  void send_spans(std::deque<Span> spans);
  void send_metrics();
  Status post(const net::Url& to, std::string body) const;

  const ExporterOptions options_;
  net::Url traces_, metrics_;
  net::HeaderList headers_;
  net::TlsTrust trust_;  // null: no endpoint uses https
  std::function<std::string()> metrics_source_;
  int64_t start_ns_ = 0;
  std::atomic<int64_t> num_sent_ = 0, num_dropped_ = 0, num_failures_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Span> queue_;  // guarded by mutex_, as is_stopped_
  bool is_stopped_ = false;
  std::thread thread_;
};

}  // namespace quire::server
