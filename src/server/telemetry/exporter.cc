#include "server/telemetry/exporter.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/log.h"
#include "server/http/metrics_text.h"
#include "server/telemetry/http_client.h"

namespace quire::server {
namespace {

using std::chrono::milliseconds;

Status post_json(const OtlpEndpoint& to, std::string body, int64_t timeout_ms) {
  HttpRequest request{.method = "POST", .headers = {{"Content-Type", "application/json"}}};
  request.body = std::move(body);
  return ask_server({to.host, to.port, to.target}, std::move(request), timeout_ms).status();
}

int64_t unix_now_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace

Result<OtlpEndpoint> parse_otlp_endpoint(const std::string& url, std::string_view path) {
  constexpr std::string_view kScheme = "http://";
  std::string_view rest = url;
  if (!rest.starts_with(kScheme))
    return invalid_argument("expected http://HOST[:PORT][/PATH] (OTLP over HTTP), got {}", url);
  rest.remove_prefix(kScheme.size());
  const std::string_view authority = rest.substr(0, rest.find('/'));
  const std::string_view target = rest.substr(authority.size());
  OtlpEndpoint endpoint{std::string(authority), "4318",
                        std::string(target.size() > 1 ? target : path)};
  // A colon within brackets is the address's own.
  const size_t colon = authority.rfind(':');
  if (colon != authority.npos && authority.find(']', colon) == authority.npos) {
    endpoint.host = authority.substr(0, colon);
    endpoint.port = authority.substr(colon + 1);
  }
  if (endpoint.host.starts_with('[') && endpoint.host.ends_with(']'))
    endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
  const bool is_number = !endpoint.port.empty() && endpoint.port.size() <= 5 &&
                         endpoint.port.find_first_not_of("0123456789") == std::string::npos;
  const bool is_plain = endpoint.target.find_first_of(" \r\n\t") == std::string::npos &&
                        endpoint.host.find_first_of(" \r\n\t@") == std::string::npos;
  if (endpoint.host.empty() || !is_number || !is_plain)
    return invalid_argument("expected http://HOST[:PORT][/PATH], got {}", url);
  return endpoint;
}

Result<std::unique_ptr<OtlpExporter>> OtlpExporter::create(ExporterOptions options) {
  auto exporter = std::make_unique<OtlpExporter>(std::move(options));
  const ExporterOptions& o = exporter->options_;
  const auto parse = [](const std::string& url, std::string_view path, const char* flag,
                        OtlpEndpoint& out) -> Status {
    if (url.empty()) return {};
    Result<OtlpEndpoint> endpoint = parse_otlp_endpoint(url, path);
    if (!endpoint.ok()) return endpoint.status().with_context(flag);
    out = std::move(endpoint).value();
    return {};
  };
  QUIRE_RETURN_IF_ERROR(
      parse(o.traces_endpoint, "/v1/traces", "--otlp-traces-endpoint", exporter->traces_));
  QUIRE_RETURN_IF_ERROR(
      parse(o.metrics_endpoint, "/v1/metrics", "--otlp-metrics-endpoint", exporter->metrics_));
  return exporter;
}

void OtlpExporter::start(std::function<std::string()> metrics_text) {
  metrics_source_ = std::move(metrics_text);
  start_ns_ = unix_now_ns();
  thread_ = std::thread([this] { run(); });
}

void OtlpExporter::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void OtlpExporter::add(Span span) {
  const std::lock_guard lock(mutex_);
  if (is_stopped_ || queue_.size() >= options_.max_queued) {
    num_dropped_.fetch_add(1);
    return;
  }
  queue_.push_back(std::move(span));  // it waits for others: nobody is woken for one
  if (queue_.size() == options_.max_batch) changed_.notify_all();
}

void OtlpExporter::run() {
  using Clock = std::chrono::steady_clock;
  const bool has_metrics = !options_.metrics_endpoint.empty();
  Clock::time_point next_metrics = Clock::now() + milliseconds(options_.metrics_interval_ms);
  std::unique_lock lock(mutex_);
  for (bool goes_on = true; goes_on;) {
    changed_.wait_for(lock, milliseconds(options_.batch_delay_ms),
                      [this] { return is_stopped_ || queue_.size() >= options_.max_batch; });
    goes_on = !is_stopped_;
    const auto end =
        queue_.begin() + static_cast<ptrdiff_t>(
                             std::min(queue_.size(), goes_on ? options_.max_batch : queue_.size()));
    std::deque<Span> spans(std::move_iterator(queue_.begin()), std::move_iterator(end));
    queue_.erase(queue_.begin(), end);
    lock.unlock();
    if (!spans.empty()) send_spans(std::move(spans));
    if (has_metrics && (!goes_on || Clock::now() >= next_metrics)) {
      send_metrics();
      next_metrics = Clock::now() + milliseconds(options_.metrics_interval_ms);
    }
    lock.lock();
  }
}

void OtlpExporter::send_spans(std::deque<Span> spans) {
  const std::vector<Span> list(std::move_iterator(spans.begin()), std::move_iterator(spans.end()));
  const Status status =
      post_json(traces_, otlp_traces(list, options_.service_name), options_.timeout_ms);
  (status.ok() ? num_sent_ : num_dropped_).fetch_add(std::ssize(list));
  if (!status.ok() && num_failures_.fetch_add(1) == 0)
    log_warn("--otlp-traces-endpoint: {}; spans are dropped until it answers", status.message());
}

void OtlpExporter::send_metrics() {
  const Status status =
      post_json({metrics_.host, metrics_.port, metrics_.target},
                otlp_metrics(metrics_source_(), options_.service_name, start_ns_, unix_now_ns()),
                options_.timeout_ms);
  if (!status.ok() && num_failures_.fetch_add(1) == 0)
    log_warn("--otlp-metrics-endpoint: {}", status.message());
}

std::string OtlpExporter::metrics_text() const {
  MetricsWriter out;
  const auto counter = [&](std::string_view name, std::string_view help, int64_t value) {
    out.family(name, "counter", help);
    out.sample(name, {}, static_cast<double>(value));
  };
  counter("quire:otlp_spans_sent_total", "Spans that the collector took.", num_sent_);
  counter("quire:otlp_spans_dropped_total",
          "Spans that the collector did not take, or that found the queue full.", num_dropped_);
  counter("quire:otlp_failures_total", "Requests to the collector that failed.", num_failures_);
  return out.take();
}

}  // namespace quire::server
