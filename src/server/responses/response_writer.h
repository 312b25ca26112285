// ResponseWriter writes answers in the form of OpenAI's Responses API and stores them for later
// requests.
#pragma once

#include <memory>
#include <string>

#include "server/answer/answer_writer.h"
#include "server/answer/detached_answer.h"
#include "server/responses/response_events.h"
#include "server/responses/response_store.h"

namespace quire::server {

class ResponseWriter final : public AnswerWriter {
 public:
  // `for_client` says whether the call's client reads the stream; otherwise the stream is only
  // stored.
  ResponseWriter(std::shared_ptr<StoredResponse> stored, std::shared_ptr<ResponseStore> store,
                 bool streams, bool for_client);
  // A response that has not ended yet is marked as cancelled.
  ~ResponseWriter() override;

  bool streams() const override { return streams_; }
  std::string_view content_type() const override;
  void begin(std::string& out) override;
  Status add(boost::json::object chunk, std::string& out) override;
  void finish(std::string& out) override;
  void break_off(const ApiError& error, std::string& out) override;
  HttpResponse refuse(const ApiError& error) const override;
  uint64_t held_bytes() const override { return events_.held_bytes() + kept_bytes_; }

 private:
  void write(const ResponseEvents& events, std::string& out);

  const std::shared_ptr<StoredResponse> stored_;
  const std::shared_ptr<ResponseStore> store_;
  const bool streams_;
  const bool for_client_;
  ResponseEventBuilder events_;
  uint64_t kept_bytes_ = 0;  // stored events, for readers that follow the response
};

// A response in the background. Its client gets it in its first state, or follows its events.
class BackgroundResponse final : public DetachedAnswer {
 public:
  BackgroundResponse(std::shared_ptr<StoredResponse> stored, std::shared_ptr<ResponseStore> store,
                     bool streams)
      : stored_(std::move(stored)),
        store_(std::move(store)),
        streams_(streams),
        queued_(stored_->response()) {}
  void set_cancel(std::function<void()> cancel) override { stored_->set_cancel(std::move(cancel)); }
  void accept(std::shared_ptr<ReplyChannel> reply, HeaderList headers) override;
  void drop() override { store_->erase(stored_->id()); }

 private:
  const std::shared_ptr<StoredResponse> stored_;
  const std::shared_ptr<ResponseStore> store_;
  const bool streams_;
  boost::json::object queued_;  // the response before it starts
};

// Sends the events of `stored` from `first` on: those that exist and those that will follow.
void follow_response(std::shared_ptr<StoredResponse> stored, int64_t first,
                     std::shared_ptr<ReplyChannel> reply, HeaderList headers);

}  // namespace quire::server
