#include "server/generation/generation_call.h"

#include <utility>

#include "server/generation/stream_bell.h"

namespace quire::server {

namespace json = boost::json;

GenerationCall::GenerationCall(std::shared_ptr<ReplyChannel> reply, ResponseShape shape,
                               std::unique_ptr<AnswerWriter> writer, Options options)
    : reply_(std::move(reply)),
      options_(std::move(options)),
      builder_(std::move(shape)),
      writer_(std::move(writer)),
      stream_(writer_->streams()) {}

GenerationCall::~GenerationCall() { give_back(); }

void GenerationCall::run(std::shared_ptr<ReplyChannel> reply, PreparedCall prepared,
                         AsyncEngine& engine, Options options) {
  auto call = std::make_shared<GenerationCall>(reply, std::move(prepared.shape),
                                               std::move(prepared.writer), std::move(options));
  // A request with a grammar may be refused late. The refusal is an answer of its own, not an event
  // of a stream.
  const bool may_be_refused =
      !prepared.requests.empty() && prepared.requests.front().structured_outputs.has_value();
  if (ApiCheck error = call->submit(std::move(prepared.requests), engine)) {
    if (error->status == 429 || error->status == 503) error->retry_after_s = engine.retry_after_s();
    call->fail(*error);
    return;
  }
  if (call->stream_ && !may_be_refused) call->begin();
  reply->attach(call);
  call->pump();
}

void GenerationCall::begin() {
  if (began_) return;
  HttpResponse head{200, std::string(writer_->content_type()), "", options_.headers};
  head.headers.emplace_back("Cache-Control", "no-cache");
  reply_->begin_stream(std::move(head));
  began_ = true;
  writer_->begin(events_);
}

ApiCheck GenerationCall::submit(std::vector<GenerationRequest> requests, AsyncEngine& engine) {
  const auto bell = stream_bell(reply_->poster(), weak_from_this(), &GenerationCall::pump);
  for (GenerationRequest& request : requests) {
    unfinished_.push_back(request.num_choices);
    Result<std::unique_ptr<OutputStream>> stream = engine.submit(std::move(request), bell);
    if (!stream.ok()) return from_status(stream.status());
    streams_.push_back(std::move(stream).value());
  }
  num_open_ = streams_.size();
  return std::nullopt;
}

void GenerationCall::pump() {
  const auto self = shared_from_this();
  bool progress = true;
  while (progress && !ended_ && num_open_ > 0) {
    progress = false;
    for (size_t i = 0; i < streams_.size() && !ended_; ++i) {
      if (streams_[i] == nullptr) continue;
      if (stream_ && !reply_->wants_more()) {
        flush();
        return;  // on_writable() comes back here
      }
      progress |= pop_one(i);
    }
    if (events_.size() >= 16 * 1024) flush();
  }
  if (ended_) return;
  flush();
  if (num_open_ == 0) finish();
}

// Handles one delta of stream `index`, if there is one.
bool GenerationCall::pop_one(size_t index) {
  std::unique_ptr<OutputStream>& stream = streams_[index];
  std::optional<OutputDelta> delta = stream->try_pop();
  if (!delta) {
    // When the engine's stream ends while a choice is open, the answer is not complete.
    if (stream->done() && unfinished_[index] > 0) {
      fail(api_error(500, "the engine ended the answer early"));
    }
    return false;
  }
  if (options_.on_delta) options_.on_delta(*delta);
  // An answer that the engine itself cut off (a reader that is too slow, a shutdown) is not
  // complete either.
  if (delta->finish_reason && !delta->status.ok()) {
    fail(from_status(delta->status));
    return false;
  }
  if (delta->finish_reason == FinishReason::kError) {
    fail(api_error(500, "the engine failed"));
    return false;
  }
  if (delta->finish_reason && --unfinished_[index] == 0) {
    stream.reset();
    --num_open_;
  }
  Chunks chunks;
  builder_.add(index, std::move(*delta), chunks);
  emit(std::move(chunks));
  return true;
}

void GenerationCall::emit(Chunks chunks) {
  for (json::object& chunk : chunks) {
    if (stream_) begin();
    if (Status status = writer_->add(std::move(chunk), events_); !status.ok()) {
      fail(api_error(500, status.message()));
      return;
    }
  }
  if (!ended_) charge_answer();
}

// An answer that is not streamed takes memory for every choice and log-probability until it is
// sent.
void GenerationCall::charge_answer() {
  const uint64_t grown = writer_->held_bytes() + builder_.held_bytes() - charged_bytes_;
  if (grown == 0) return;
  const uint64_t all = options_.held_bytes->fetch_add(grown) + grown;
  charged_bytes_ += grown;
  const ServerLimits& limits = options_.limits;
  if (charged_bytes_ > limits.answer_bytes) {
    fail(api_error(413, fmt::format("the answer is larger than the {} MiB that this server holds "
                                    "of one (--max-answer-size); stream it, or ask for fewer "
                                    "choices or log-probabilities",
                                    limits.answer_bytes >> 20)));
  } else if (all > limits.total_answer_bytes) {
    ApiError error = api_error(429, "the server holds as many answers as it may; try again");
    error.retry_after_s = 1;
    fail(error);
  }
}

void GenerationCall::flush() {
  if (!events_.empty()) reply_->write(std::exchange(events_, {}));
}

void GenerationCall::finish() {
  Chunks chunks;
  builder_.finish(chunks);
  emit(std::move(chunks));
  if (ended_) return;
  if (stream_) begin();
  writer_->finish(events_);
  if (stream_) {
    flush();
    reply_->end_stream();
  } else {
    HttpResponse response{200, std::string(writer_->content_type()), std::exchange(events_, {}),
                          options_.headers};
    reply_->send(std::move(response));
  }
  end();
}

void GenerationCall::fail(const ApiError& error) {
  if (ended_) return;
  if (began_) writer_->break_off(error, events_);
  HttpResponse response = began_ ? HttpResponse() : writer_->refuse(error);
  // The call ends first, so that nothing of the request runs or is held when the client reads the
  // error.
  end();
  give_back();
  if (began_) {
    flush();
    reply_->end_stream();
  } else {
    response.headers.insert(response.headers.end(), options_.headers.begin(),
                            options_.headers.end());
    reply_->send(std::move(response));
  }
}

void GenerationCall::end() {
  ended_ = true;
  writer_.reset();   // frees a failed answer
  streams_.clear();  // aborts running requests
  num_open_ = 0;
}

void GenerationCall::give_back() {
  options_.held_bytes->fetch_sub(std::exchange(charged_bytes_, 0));
}

void GenerationCall::on_disconnect() { end(); }

}  // namespace quire::server
