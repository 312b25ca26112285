#include "gateway/proxy_call.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "gateway/request_text.h"
#include "server/http/api_error.h"

namespace quire::gateway {
namespace {

using server::HttpResponse;

// An answer of at most this many bytes is sent when it is complete. Until then the request can
// still go to another backend.
constexpr uint64_t kMostCollected = 256 * 1024;
// Bytes that are kept of an answer that says that a backend has no room, in case no other backend
// has room.
constexpr size_t kMostRefusal = 64 * 1024;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

ProxyCall::ProxyCall(ProxyContext& context, server::HttpRequest request,
                     std::shared_ptr<server::ReplyChannel> reply,
                     std::chrono::steady_clock::time_point start, std::shared_ptr<RouteSpan> span)
    : context_(context),
      request_(std::move(request)),
      reply_(std::move(reply)),
      start_(start),
      span_(std::move(span)),
      turns_(context.backends, context.backends.hint_of(request_.body, session_of(request_)),
             std::ssize(request_.body) / 4) {
  ++context_.counts.num_requests;
  ++context_.counts.num_open;
}

ProxyCall::~ProxyCall() { --context_.counts.num_open; }

void ProxyCall::start() {
  // start_ may be earlier, before a first leg.
  const auto begun = std::chrono::steady_clock::now();
  reply_->attach(shared_from_this());
  try_next();
  context_.counts.choice_seconds.observe(seconds_since(begun));
}

void ProxyCall::try_next() {
  if (reply_ == nullptr) return;
  if (!turns_.begin()) return answer_without_backend();
  if (!turns_.is_first()) ++context_.counts.num_retries;
  if (span_ != nullptr) span_->note_backend(turns_.backend()->address().authority(), false);
  call_ = std::make_shared<BackendCall>(
      context_.executor, turns_.backend(), shared_from_this(), context_.scratch,
      BackendCall::Options{.connect_timeout = context_.connect_timeout,
                           .is_head = request_.method == "HEAD"});
  const std::shared_ptr<BackendCall> call = call_;  // it may fail at once and be replaced
  call->start(request_text(request_, request_.body, *turns_.backend()));
}

void ProxyCall::on_head(HttpResponse head, std::optional<uint64_t> length) {
  head_ = std::move(head);
  is_collected_ = may_be_retried(head_.status) || (length && *length <= kMostCollected) ||
                  request_.method == "HEAD";
}

void ProxyCall::on_body(std::string_view piece) {
  if (reply_ == nullptr) return;
  if (is_collected_) {
    if (!may_be_retried(head_.status) || head_.body.size() < kMostRefusal) head_.body += piece;
    return;
  }
  // The head is sent with the first piece of the body. Until then another backend can still get the
  // request.
  if (!std::exchange(is_streaming_, true)) {
    context_.counts.first_byte_seconds.observe(seconds_since(start_));
    begin_stream();
  }
  reply_->write(piece);
}

void ProxyCall::on_end() {
  turns_.end();
  if (reply_ == nullptr) return;
  if (is_collected_) {
    if (may_be_retried(head_.status)) return try_next();
    return answer_whole();
  }
  if (!is_streaming_) begin_stream();
  const auto reply = std::exchange(reply_, nullptr);
  reply->end_stream();
}

void ProxyCall::begin_stream() {
  if (span_ != nullptr) {
    span_->note_first_byte();
    span_->note_status(head_.status);
  }
  reply_->begin_stream(head_);
}

void ProxyCall::answer_whole() {
  context_.counts.first_byte_seconds.observe(seconds_since(start_));
  if (span_ != nullptr) {
    span_->note_first_byte();
    span_->note_status(head_.status);
  }
  const auto reply = std::exchange(reply_, nullptr);
  reply->send(std::move(head_));
}

void ProxyCall::on_failure(const std::string& why) {
  const std::shared_ptr<Backend> failed = turns_.backend();
  ++failed->counts.num_failures;
  turns_.end();
  last_failure_ = fmt::format("backend {}: {}", failed->address().authority(), why);
  log_warn("{} {}: {}", request_.method, request_.path, last_failure_);
  context_.on_failed(failed);
  if (reply_ == nullptr) return;
  if (is_streaming_) return end_cut_stream(last_failure_);
  head_ = {};
  is_collected_ = false;
  try_next();
}

// The client has a part of the answer and must not take it for the whole.
void ProxyCall::end_cut_stream(const std::string& why) {
  ++context_.counts.num_cut;
  if (span_ != nullptr) span_->note_failure("the answer was cut off: " + why);
  const auto reply = std::exchange(reply_, nullptr);
  if (!head_.content_type.starts_with("text/event-stream"))
    return reply->cut("the answer was cut off: " + why);
  const server::ApiError error =
      server::api_error(502, fmt::format("the answer was cut off: {}", why));
  reply->write(fmt::format("\n\ndata: {}\n\n", server::error_body(error)));
  reply->end_stream();
}

void ProxyCall::answer_without_backend() {
  ++context_.counts.num_refused;
  if (may_be_retried(head_.status)) return answer_whole();  // all backends are full
  server::ApiError error = server::api_error(
      503, last_failure_.empty() ? "no backend takes requests now"
                                 : fmt::format("no backend answered; {}", last_failure_));
  error.retry_after_s = 1;
  if (span_ != nullptr) {
    span_->note_status(error.status);
    span_->note_failure(error.message);
  }
  const auto reply = std::exchange(reply_, nullptr);
  reply->send(server::error_response(error));
}

void ProxyCall::on_writable() {
  if (call_ != nullptr) call_->resume();
}

void ProxyCall::on_disconnect() {
  reply_ = nullptr;
  if (call_ != nullptr) call_->cancel();
  turns_.end();
}

}  // namespace quire::gateway
