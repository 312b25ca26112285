#include "server/telemetry/exporter.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/text_fields.h"
#include "server/http/metrics_text.h"

namespace quire::server {
namespace {

using std::chrono::milliseconds;

int64_t unix_now_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace

Result<net::Url> parse_otlp_endpoint(const std::string& url, std::string_view path) {
  const bool is_encrypted = url.starts_with("https://");
  return net::parse_url(url, {.port = is_encrypted ? "" : "4318", .target = path});
}

Result<net::HeaderList> parse_otlp_headers(std::string_view text) {
  constexpr std::string_view kNameMarks = "-_.~!#$%&'*+^`|";
  net::HeaderList headers;
  for (const std::string_view entry : split(text, ',')) {
    if (trim(entry).empty()) continue;
    const size_t equals = std::min(entry.find('='), entry.size());
    const std::string_view name = trim(entry.substr(0, equals));
    const bool is_name = !name.empty() && std::all_of(name.begin(), name.end(), [&](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             kNameMarks.find(c) != kNameMarks.npos;
    });
    if (!is_name || equals == entry.size())
      return invalid_argument("expected NAME=VALUE, and a comma before the next, got an entry {}",
                              name);
    QUIRE_ASSIGN_OR_RETURN(std::string value, net::percent_decoded(trim(entry.substr(equals + 1))));
    const bool is_value = std::all_of(value.begin(), value.end(),
                                      [](char c) { return c == '\t' || (c >= ' ' && c != 127); });
    if (!is_value)
      return invalid_argument("expected plain characters as the value of {}, got others", name);
    headers.emplace_back(name, std::move(value));
  }
  return headers;
}

Result<std::unique_ptr<OtlpExporter>> OtlpExporter::create(ExporterOptions options) {
  auto exporter = std::make_unique<OtlpExporter>(std::move(options));
  const ExporterOptions& o = exporter->options_;
  const auto parse = [](const std::string& url, std::string_view path, const char* flag,
                        net::Url& out) -> Status {
    if (url.empty()) return {};
    Result<net::Url> endpoint = parse_otlp_endpoint(url, path);
    if (!endpoint.ok()) return endpoint.status().with_context(flag);
    out = std::move(endpoint).value();
    return {};
  };
  QUIRE_RETURN_IF_ERROR(
      parse(o.traces_endpoint, "/v1/traces", "--otlp-traces-endpoint", exporter->traces_));
  QUIRE_RETURN_IF_ERROR(
      parse(o.metrics_endpoint, "/v1/metrics", "--otlp-metrics-endpoint", exporter->metrics_));
  Result<net::HeaderList> headers = parse_otlp_headers(o.headers);
  if (!headers.ok()) return headers.status().with_context("--otlp-headers");
  exporter->headers_ = std::move(headers).value();
  if (!exporter->traces_.is_encrypted && !exporter->metrics_.is_encrypted) return exporter;
  Result<net::TlsTrust> trust = net::load_trust(o.ca_file);
  if (!trust.ok()) return trust.status().with_context("--otlp-ca-file");
  exporter->trust_ = std::move(trust).value();
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
  queue_.push_back(std::move(span));  // the thread is not woken for a single span
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

Status OtlpExporter::post(const net::Url& to, std::string body) const {
  net::Request request{.method = "POST", .headers = {{"Content-Type", "application/json"}}};
  request.headers.insert(request.headers.end(), headers_.begin(), headers_.end());
  request.body = std::move(body);
  return net::ask(to, request, {.trust = trust_, .total_timeout_ms = options_.timeout_ms}).status();
}

void OtlpExporter::send_spans(std::deque<Span> spans) {
  const std::vector<Span> list(std::move_iterator(spans.begin()), std::move_iterator(spans.end()));
  const Status status = post(traces_, otlp_traces(list, options_.service_name));
  (status.ok() ? num_sent_ : num_dropped_).fetch_add(std::ssize(list));
  if (!status.ok() && num_failures_.fetch_add(1) == 0)
    log_warn("--otlp-traces-endpoint: {}; spans are dropped until it answers", status.message());
}

void OtlpExporter::send_metrics() {
  const Status status = post(
      metrics_, otlp_metrics(metrics_source_(), options_.service_name, start_ns_, unix_now_ns()));
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
