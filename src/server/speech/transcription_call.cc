#include "server/speech/transcription_call.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "server/generation/stream_bell.h"
#include "server/http/sse.h"

namespace quire::server {

namespace json = boost::json;

TranscriptionCall::TranscriptionCall(std::shared_ptr<ReplyChannel> reply,
                                     std::shared_ptr<PreparedSpeech> prepared, AsyncEngine& engine,
                                     GenerationCall::Options options)
    : reply_(std::move(reply)),
      prepared_(std::move(prepared)),
      engine_(engine),
      options_(std::move(options)) {}

void TranscriptionCall::run(std::shared_ptr<ReplyChannel> reply,
                            std::shared_ptr<PreparedSpeech> prepared, AsyncEngine& engine,
                            GenerationCall::Options options) {
  auto call =
      std::make_shared<TranscriptionCall>(reply, std::move(prepared), engine, std::move(options));
  reply->attach(call);
  call->ask_next();
  call->pump();
}

// Sends the next query to the engine. When there is none, the transcript is complete.
void TranscriptionCall::ask_next() {
  Result<std::optional<SpeechQuery>> query = prepared_->transcriber->next();
  if (!query.ok()) return fail(from_status(query.status()));
  if (!query->has_value()) return finish();
  if (ApiCheck error = ask(std::move(**query))) fail(std::move(*error));
}

ApiCheck TranscriptionCall::ask(SpeechQuery query) {
  GenerationRequest request{.external_id = prepared_->external_id,
                            .prompt_token_ids = std::move(query.prompt),
                            .params = std::move(query.params)};
  request.media = {MediaSpan::of_source(std::move(query.window))};
  if (query.alignment != nullptr) {
    request.kind = RequestKind::kPool;
    request.pooling = std::move(query.alignment);
  }
  request.priority = prepared_->priority;
  request.cache_keys = prepared_->cache_keys;
  request.arrival_us = prepared_->arrival_us;
  request.timeout_us = prepared_->timeout_us;
  const auto bell = stream_bell(reply_->poster(), weak_from_this(), &TranscriptionCall::pump);
  answer_ = {};
  Result<std::unique_ptr<OutputStream>> stream = engine_.submit(std::move(request), bell);
  if (!stream.ok()) return from_status(stream.status());
  stream_ = std::move(stream).value();
  return std::nullopt;
}

void TranscriptionCall::pump() {
  const auto self = shared_from_this();
  while (!ended_ && stream_ != nullptr) {
    if (began_ && !reply_->wants_more()) return;  // on_writable() continues here
    if (!pop_one()) return;
  }
}

// Handles one delta, if there is one. After the last delta of a query it sends the next query.
bool TranscriptionCall::pop_one() {
  std::optional<OutputDelta> delta = stream_->try_pop();
  if (!delta) {
    if (stream_->done()) fail(api_error(500, "the engine ended the answer early"));
    return false;
  }
  if (options_.on_delta) options_.on_delta(*delta);
  answer_.token_ids.insert(answer_.token_ids.end(), delta->token_ids.begin(),
                           delta->token_ids.end());
  answer_.logprobs.insert(answer_.logprobs.end(), std::make_move_iterator(delta->logprobs.begin()),
                          std::make_move_iterator(delta->logprobs.end()));
  if (!delta->finish_reason) return true;
  answer_.pooled = std::move(delta->pooled);
  if (!delta->status.ok()) {
    fail(from_status(delta->status));
    return false;
  }
  if (delta->finish_reason == FinishReason::kError ||
      delta->finish_reason == FinishReason::kAbort) {
    fail(api_error(500, "the engine ended the answer early"));
    return false;
  }
  stream_.reset();
  prepared_->transcriber->take(answer_);
  if (prepared_->streams) send_new_text();
  ask_next();
  return !ended_;
}

void TranscriptionCall::begin_stream() {
  if (std::exchange(began_, true)) return;
  HttpResponse head{200, "text/event-stream; charset=utf-8", "", options_.headers};
  head.headers.emplace_back("Cache-Control", "no-cache");
  reply_->begin_stream(std::move(head));
}

// Sends the text of each segment when its window is done, as OpenAI's streams do.
void TranscriptionCall::send_new_text() {
  const std::vector<TranscriptSegment>& segments = prepared_->transcriber->segments();
  for (; num_sent_segments_ < segments.size(); ++num_sent_segments_) {
    begin_stream();
    std::string_view text = segments[num_sent_segments_].text;
    if (num_sent_segments_ == 0 && text.starts_with(' ')) text.remove_prefix(1);
    reply_->write(sse_event(
        json::serialize(json::object{{"type", "transcript.text.delta"}, {"delta", text}})));
  }
}

void TranscriptionCall::finish() {
  const Transcriber& transcriber = *prepared_->transcriber;
  if (prepared_->streams) {
    begin_stream();
    reply_->write(
        sse_event(json::serialize(json::object{{"type", "transcript.text.done"},
                                               {"text", transcriber.text()},
                                               {"usage", transcript_usage(transcriber)}})));
    reply_->write(kSseDone);
    end();
    return reply_->end_stream();
  }
  HttpResponse response =
      transcript_response(transcriber, prepared_->format, prepared_->lists_segments);
  response.headers.insert(response.headers.end(), options_.headers.begin(), options_.headers.end());
  end();
  reply_->send(std::move(response));
}

void TranscriptionCall::fail(ApiError error) {
  if (ended_) return;
  if (error.status == 429 || error.status == 503) error.retry_after_s = engine_.retry_after_s();
  const bool streams = began_;
  end();
  if (streams) {
    reply_->write(sse_event(error_body(error)));
    reply_->write(kSseDone);
    return reply_->end_stream();
  }
  HttpResponse response = error_response(error);
  response.headers.insert(response.headers.end(), options_.headers.begin(), options_.headers.end());
  reply_->send(std::move(response));
}

void TranscriptionCall::end() {
  ended_ = true;
  stream_.reset();  // aborts a running request
  prepared_.reset();
}

}  // namespace quire::server
