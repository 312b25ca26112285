#include "server/pooling/pooling_call.h"

#include <utility>

#include "server/generation/stream_bell.h"
#include "server/pooling/pooling_answer.h"

namespace quire::server {

PoolingCall::PoolingCall(std::shared_ptr<ReplyChannel> reply, PreparedPooling prepared,
                         Options options)
    : reply_(std::move(reply)), prepared_(std::move(prepared)), options_(std::move(options)) {}

void PoolingCall::run(std::shared_ptr<ReplyChannel> reply, PreparedPooling prepared,
                      AsyncEngine& engine, Options options) {
  auto call = std::make_shared<PoolingCall>(reply, std::move(prepared), std::move(options));
  if (ApiCheck error = call->submit(engine)) {
    if (error->status == 429 || error->status == 503) error->retry_after_s = engine.retry_after_s();
    return call->fail(*error);
  }
  reply->attach(call);
  call->pump();
}

ApiCheck PoolingCall::submit(AsyncEngine& engine) {
  const auto bell = stream_bell(reply_->poster(), weak_from_this(), &PoolingCall::pump);
  for (const GenerationRequest& request : prepared_.requests) {
    Result<std::unique_ptr<OutputStream>> stream = engine.submit(request, bell);
    if (!stream.ok()) return from_status(stream.status());
    streams_.push_back(std::move(stream).value());
  }
  outputs_.resize(streams_.size());
  num_open_ = streams_.size();
  return std::nullopt;
}

void PoolingCall::pump() {
  const auto self = shared_from_this();
  for (size_t i = 0; i < streams_.size() && !ended_; ++i) {
    while (!ended_ && streams_[i] != nullptr && pop_one(i)) {
    }
  }
  if (!ended_ && num_open_ == 0) send(pooling_answer(prepared_, outputs_, options_.labels));
}

// Handles one delta of stream `index`, if there is one.
bool PoolingCall::pop_one(size_t index) {
  std::optional<OutputDelta> delta = streams_[index]->try_pop();
  if (!delta) return false;
  if (options_.on_delta) options_.on_delta(*delta);
  if (!delta->finish_reason) return true;
  if (!delta->status.ok()) {
    fail(from_status(delta->status));
  } else if (delta->finish_reason != FinishReason::kLength || delta->pooled.num_rows() == 0) {
    fail(api_error(500, "the engine ended the request early"));
  } else {
    outputs_[index] = std::move(delta->pooled);
    streams_[index].reset();
    --num_open_;
  }
  return false;
}

void PoolingCall::fail(const ApiError& error) {
  if (!ended_) send(options_.refuse(error));
}

void PoolingCall::send(HttpResponse response) {
  end();
  response.headers.insert(response.headers.end(), options_.headers.begin(), options_.headers.end());
  reply_->send(std::move(response));
}

void PoolingCall::end() {
  ended_ = true;
  streams_.clear();  // aborts running requests
  num_open_ = 0;
}

}  // namespace quire::server
