#include "gateway/route_span.h"

#include <utility>

#include "server/telemetry/request_span.h"

namespace quire::gateway {
namespace {

constexpr std::string_view kTraceparent = "traceparent";

int64_t unix_now_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace

std::shared_ptr<RouteSpan> RouteSpan::begin(const std::shared_ptr<server::OtlpExporter>& exporter,
                                            server::HttpRequest& request) {
  // Requests that only read are frequent and do no work, so they get no span.
  if (exporter == nullptr || !exporter->wants_spans() || request.method != "POST") return nullptr;
  const server::TraceContext trace = server::trace_of(request);
  if (!trace.is_sampled) return nullptr;
  server::Span span{.trace = trace, .span_id = server::new_span_id(), .name = "route_request"};
  span.start_ns = unix_now_ns();
  span.attributes = {{"http.request.method", request.method}, {"url.path", request.path}};
  std::erase_if(request.headers, [](const auto& header) {
    return server::equals_ignoring_case(header.first, kTraceparent);
  });
  request.headers.emplace_back(kTraceparent, server::traceparent(trace, span.span_id));
  return std::make_shared<RouteSpan>(exporter, std::move(span));
}

RouteSpan::RouteSpan(std::shared_ptr<server::OtlpExporter> exporter, server::Span span)
    : exporter_(std::move(exporter)), span_(std::move(span)) {}

void RouteSpan::note_backend(const std::string& authority, bool is_prefill) {
  (is_prefill ? prefill_backend_ : backend_) = authority;
  if (!is_prefill) ++num_attempts_;
}

void RouteSpan::note_first_byte() {
  if (first_byte_s_ >= 0) return;
  first_byte_s_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void RouteSpan::note_failure(const std::string& why) {
  span_.has_failed = true;
  span_.error = why;
}

RouteSpan::~RouteSpan() {
  span_.end_ns = unix_now_ns();
  span_.attributes.emplace_back("quire.route.attempts", num_attempts_);
  if (!backend_.empty()) span_.attributes.emplace_back("quire.route.backend", backend_);
  if (!prefill_backend_.empty())
    span_.attributes.emplace_back("quire.route.prefill_backend", prefill_backend_);
  if (first_byte_s_ >= 0)
    span_.attributes.emplace_back("quire.route.time_to_first_byte", first_byte_s_);
  if (status_ != 0) span_.attributes.emplace_back("http.response.status_code", int64_t{status_});
  if (!span_.has_failed && status_ == 0) note_failure("the client left before its answer");
  if (!span_.has_failed && status_ >= 500) note_failure("the answer is an error");
  exporter_->add(std::move(span_));
}

}  // namespace quire::gateway
