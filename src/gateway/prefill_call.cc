#include "gateway/prefill_call.h"

#include <utility>

#include "base/log.h"
#include "gateway/kv_legs.h"
#include "gateway/request_text.h"

namespace quire::gateway {
namespace {

// Longest answer that is kept. It has one token and the handover; more is never needed.
constexpr size_t kMostAnswer = size_t{8} << 20;

}  // namespace

PrefillCall::PrefillCall(ProxyContext& prefill, ProxyContext& decode, server::HttpRequest request,
                         std::string body, std::chrono::milliseconds timeout,
                         std::shared_ptr<server::ReplyChannel> reply,
                         std::shared_ptr<RouteSpan> span)
    : prefill_(prefill),
      decode_(decode),
      request_(std::move(request)),
      body_(std::move(body)),
      timeout_(timeout),
      reply_(std::move(reply)),
      span_(std::move(span)),
      turns_(prefill.backends, prefill.backends.hint_of(request_.body, session_of(request_)),
             std::ssize(request_.body) / 4) {
  ++prefill_.counts.num_prefills;
  ++prefill_.counts.num_open;
}

PrefillCall::~PrefillCall() { --prefill_.counts.num_open; }

void PrefillCall::start() {
  reply_->attach(shared_from_this());
  try_next();
}

void PrefillCall::try_next() {
  if (reply_ == nullptr) return;
  if (!turns_.begin()) return decode({});
  answer_.clear();
  if (span_ != nullptr) span_->note_backend(turns_.backend()->address().authority(), true);
  call_ = std::make_shared<BackendCall>(
      prefill_.executor, turns_.backend(), shared_from_this(), prefill_.scratch,
      BackendCall::Options{.connect_timeout = prefill_.connect_timeout,
                           .answer_timeout = timeout_});
  const std::shared_ptr<BackendCall> call = call_;  // it may fail at once and be replaced
  call->start(request_text(request_, body_, *turns_.backend()));
}

void PrefillCall::on_head(server::HttpResponse head, std::optional<uint64_t>) {
  status_ = head.status;
}

void PrefillCall::on_body(std::string_view piece) {
  if (answer_.size() + piece.size() <= kMostAnswer) answer_ += piece;
}

void PrefillCall::on_end() {
  turns_.end();
  if (may_be_retried(status_)) return try_next();
  decode(status_ == 200 ? std::string_view(answer_) : std::string_view());
}

void PrefillCall::on_failure(const std::string& why) {
  const std::shared_ptr<Backend> failed = turns_.backend();
  ++failed->counts.num_failures;
  turns_.end();
  log_warn("prefill {}: {}", failed->address().authority(), why);
  prefill_.on_failed(failed);
  try_next();
}

void PrefillCall::decode(std::string_view answer) {
  if (reply_ == nullptr) return;
  std::string body = decode_body(request_.body, answer);
  if (body.size() == request_.body.size()) ++prefill_.counts.num_prefills_failed;
  request_.body = std::move(body);
  std::make_shared<ProxyCall>(decode_, std::move(request_), std::exchange(reply_, nullptr), start_,
                              span_)
      ->start();
}

void PrefillCall::on_disconnect() {
  reply_ = nullptr;
  if (call_ != nullptr) call_->cancel();
  turns_.end();
}

}  // namespace quire::gateway
