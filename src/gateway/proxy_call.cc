#include "gateway/proxy_call.h"

#include <fmt/format.h>

#include <iterator>
#include <stdexcept>
#include <utility>

#include "base/log.h"
#include "server/http/api_error.h"

namespace quire::gateway {
namespace {

using server::HttpResponse;

// Answers of at most so many bytes are passed on when they are whole, with their length, and can be
// asked of another backend as long as they are not.
constexpr uint64_t kMostCollected = 256 * 1024;
// Of an answer that says that a backend has no room, in case no other has.
constexpr size_t kMostRefusal = 64 * 1024;

// Of the client's connection to the gateway, not of the request.
bool is_of_connection(std::string_view name) {
  constexpr std::string_view kNames[] = {
      "connection", "keep-alive",     "transfer-encoding",  "te", "trailer", "upgrade", "host",
      "expect",     "content-length", "proxy-authorization"};
  for (const std::string_view known : kNames) {
    if (server::equals_ignoring_case(name, known)) return true;
  }
  return false;
}

// What names a session in the headers that clients and gateways send.
std::string_view session_of(const server::HttpRequest& request) {
  for (const std::string_view name :
       {"x-session-id", "x-session-affinity", "session-id", "x-claude-code-session-id"}) {
    if (const auto value = request.header(name)) return *value;
  }
  return {};
}

// The target of a request for this path and query, which server::split_target() has decoded.
std::string target_of(std::string_view path, std::string_view query) {
  constexpr std::string_view kPlain = "/-._~!$&'()*+,;=:@";
  std::string target;
  for (const char c : path) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || kPlain.find(c) != kPlain.npos;
    if (is_plain) {
      target += c;
    } else {
      fmt::format_to(std::back_inserter(target), "%{:02X}", static_cast<unsigned char>(c));
    }
  }
  if (!query.empty()) target.append("?").append(query);
  return target;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Ends an answer that cannot be finished: the connection closes without the end that its framing
// promises, as for every exchange whose work throws.
void cut(server::ReplyChannel& reply, const std::string& why) {
  reply.poster()([why] { throw std::runtime_error("the answer was cut off: " + why); });
}

}  // namespace

ProxyCall::ProxyCall(ProxyContext& context, server::HttpRequest request,
                     std::shared_ptr<server::ReplyChannel> reply)
    : context_(context),
      request_(std::move(request)),
      reply_(std::move(reply)),
      hint_(context.backends.hint_of(request_.body, session_of(request_))),
      num_tokens_(std::ssize(request_.body) / 4) {
  ++context_.counts.num_requests;
  ++context_.counts.num_open;
}

ProxyCall::~ProxyCall() { --context_.counts.num_open; }

void ProxyCall::start() {
  reply_->attach(shared_from_this());
  try_next();
  context_.counts.choice_seconds.observe(seconds_since(start_));
}

std::string ProxyCall::request_to(const Backend& backend) const {
  std::string text =
      fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\n", request_.method,
                  target_of(request_.path, request_.query), backend.address().authority());
  for (const auto& [name, value] : request_.headers) {
    if (!is_of_connection(name))
      fmt::format_to(std::back_inserter(text), "{}: {}\r\n", name, value);
  }
  if (!request_.body.empty() || request_.method == "POST")
    fmt::format_to(std::back_inserter(text), "Content-Length: {}\r\n", request_.body.size());
  text += "\r\n";
  text += request_.body;
  return text;
}

void ProxyCall::try_next() {
  if (reply_ == nullptr) return;
  backend_ = context_.backends.choose(hint_, tried_);
  if (backend_ == nullptr) return answer_without_backend();
  if (!tried_.empty()) ++context_.counts.num_retries;
  tried_.push_back(backend_->id());
  ++backend_->counts.num_requests;
  ++backend_->num_open;
  backend_->num_open_tokens += num_tokens_;
  call_ = std::make_shared<BackendCall>(
      context_.executor, backend_, shared_from_this(), context_.scratch,
      BackendCall::Options{.connect_timeout = context_.connect_timeout,
                           .is_head = request_.method == "HEAD"});
  const std::shared_ptr<BackendCall> call = call_;  // may fail at once, and be replaced
  call->start(request_to(*backend_));
}

void ProxyCall::release() {
  if (backend_ == nullptr) return;
  --backend_->num_open;
  backend_->num_open_tokens -= num_tokens_;
  backend_ = nullptr;
}

// A backend that has no room or is about to end, where another may take the request.
bool ProxyCall::is_retried(int status) const {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

void ProxyCall::on_head(HttpResponse head, std::optional<uint64_t> length) {
  head_ = std::move(head);
  is_collected_ = is_retried(head_.status) || (length && *length <= kMostCollected) ||
                  request_.method == "HEAD";
}

void ProxyCall::on_body(std::string_view piece) {
  if (reply_ == nullptr) return;
  if (is_collected_) {
    if (!is_retried(head_.status) || head_.body.size() < kMostRefusal) head_.body += piece;
    return;
  }
  // The head waits for the first piece: until then another backend can take over.
  if (!std::exchange(is_streaming_, true)) {
    context_.counts.first_byte_seconds.observe(seconds_since(start_));
    reply_->begin_stream(head_);
  }
  reply_->write(piece);
}

void ProxyCall::on_end() {
  release();
  if (reply_ == nullptr) return;
  if (is_collected_) {
    if (is_retried(head_.status)) return try_next();
    return answer_whole();
  }
  if (!is_streaming_) reply_->begin_stream(head_);
  const auto reply = std::exchange(reply_, nullptr);
  reply->end_stream();
}

void ProxyCall::answer_whole() {
  context_.counts.first_byte_seconds.observe(seconds_since(start_));
  const auto reply = std::exchange(reply_, nullptr);
  reply->send(std::move(head_));
}

void ProxyCall::on_failure(const std::string& why) {
  const std::shared_ptr<Backend> failed = backend_;
  ++failed->counts.num_failures;
  release();
  last_failure_ = fmt::format("backend {}: {}", failed->address().authority(), why);
  log_warn("{} {}: {}", request_.method, request_.path, last_failure_);
  context_.on_failed(failed);
  if (reply_ == nullptr) return;
  if (is_streaming_) return end_cut_stream(last_failure_);
  head_ = {};
  is_collected_ = false;
  try_next();
}

// The client has a part of the answer. It must not take that for the whole.
void ProxyCall::end_cut_stream(const std::string& why) {
  ++context_.counts.num_cut;
  const auto reply = std::exchange(reply_, nullptr);
  if (!head_.content_type.starts_with("text/event-stream")) return cut(*reply, why);
  const server::ApiError error =
      server::api_error(502, fmt::format("the answer was cut off: {}", why));
  reply->write(fmt::format("\n\ndata: {}\n\n", server::error_body(error)));
  reply->end_stream();
}

void ProxyCall::answer_without_backend() {
  ++context_.counts.num_refused;
  if (is_retried(head_.status)) return answer_whole();  // all are as full as this one
  server::ApiError error = server::api_error(
      503, last_failure_.empty() ? "no backend takes requests now"
                                 : fmt::format("no backend answered; {}", last_failure_));
  error.retry_after_s = 1;
  const auto reply = std::exchange(reply_, nullptr);
  reply->send(server::error_response(error));
}

void ProxyCall::on_writable() {
  if (call_ != nullptr) call_->resume();
}

void ProxyCall::on_disconnect() {
  reply_ = nullptr;
  if (call_ != nullptr) call_->cancel();
  release();
}

}  // namespace quire::gateway
