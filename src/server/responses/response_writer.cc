#include "server/responses/response_writer.h"

#include <atomic>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <utility>

#include "server/http/sse.h"

namespace quire::server {
namespace {

namespace json = boost::json;

constexpr size_t kWriteBytes = 16 * 1024;

int64_t unix_now_s() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

// A Follower is a client that follows a response. It lives on its connection's strand; whoever adds
// an event only rings its bell.
class Follower final : public OngoingCall, public std::enable_shared_from_this<Follower> {
 public:
  Follower(std::shared_ptr<StoredResponse> stored, int64_t first,
           std::shared_ptr<ReplyChannel> reply)
      : stored_(std::move(stored)), next_(first), reply_(std::move(reply)) {}

  void begin() {
    bell_ = std::make_shared<std::function<void()>>(
        [weak = weak_from_this(), post = reply_->poster(),
         rung = std::make_shared<std::atomic<bool>>(false)] {
          if (rung->exchange(true)) return;
          post([weak, rung] {
            rung->store(false);
            if (const auto follower = weak.lock()) follower->pump();
          });
        });
    stored_->add_bell(bell_);
    reply_->attach(shared_from_this());
    pump();
  }
  void on_writable() override { pump(); }
  void on_disconnect() override {
    bell_.reset();
    reply_.reset();
  }

 private:
  void pump() {
    const auto self = shared_from_this();
    bool at_end = false;
    while (reply_ != nullptr && !at_end && reply_->wants_more()) {
      std::string events;
      next_ = stored_->read_events(next_, kWriteBytes, events, at_end);
      if (events.empty() && !at_end) return;
      if (!events.empty()) reply_->write(events);
    }
    if (reply_ == nullptr || !at_end) return;
    bell_.reset();
    std::exchange(reply_, nullptr)->end_stream();
  }

  const std::shared_ptr<StoredResponse> stored_;
  int64_t next_;
  std::shared_ptr<ReplyChannel> reply_;  // null when it has ended
  std::shared_ptr<std::function<void()>> bell_;
};

}  // namespace

ResponseWriter::ResponseWriter(std::shared_ptr<StoredResponse> stored,
                               std::shared_ptr<ResponseStore> store, bool streams, bool for_client)
    : stored_(std::move(stored)),
      store_(std::move(store)),
      streams_(streams),
      for_client_(for_client),
      events_(stored_->response()) {}

ResponseWriter::~ResponseWriter() { stored_->end_as("cancelled", "", ""); }

std::string_view ResponseWriter::content_type() const {
  return streams_ ? kEventStream : std::string_view("application/json");
}

void ResponseWriter::write(const ResponseEvents& events, std::string& out) {
  if (!streams_ || !(for_client_ || stored_->keeps_events())) return;
  for (const json::object& event : events) {
    const json::string& type = event.at("type").as_string();
    std::string text = sse_event({type.data(), type.size()}, json::serialize(event));
    if (for_client_) out += text;
    if (!stored_->keeps_events()) continue;
    kept_bytes_ += text.size();
    stored_->add_event(std::move(text));
  }
}

void ResponseWriter::begin(std::string& out) {
  ResponseEvents events;
  events_.begin(events);
  stored_->set_running(events_.response());
  write(events, out);
}

Status ResponseWriter::add(json::object chunk, std::string& out) {
  ResponseEvents events;
  events_.add(chunk, events);
  write(events, out);
  return {};
}

void ResponseWriter::finish(std::string& out) {
  ResponseEvents events;
  events_.finish(unix_now_s(), events);
  write(events, out);
  if (!streams_) out += json::serialize(events_.response());
  stored_->finish(events_.response());
}

void ResponseWriter::break_off(const ApiError& error, std::string& out) {
  ResponseEvents events;
  events_.fail(error, events);
  write(events, out);
  stored_->finish(events_.response());
}

HttpResponse ResponseWriter::refuse(const ApiError& error) const {
  stored_->end_as("failed", "server_error", presentable(error.message));
  if (for_client_) store_->erase(stored_->id());
  return error_response(error);
}

void BackgroundResponse::accept(std::shared_ptr<ReplyChannel> reply, HeaderList headers) {
  if (streams_) return follow_response(stored_, 0, std::move(reply), std::move(headers));
  reply->send({200, "application/json", json::serialize(queued_), std::move(headers)});
}

void follow_response(std::shared_ptr<StoredResponse> stored, int64_t first,
                     std::shared_ptr<ReplyChannel> reply, HeaderList headers) {
  HttpResponse head{200, std::string(kEventStream), "", std::move(headers)};
  head.headers.emplace_back("Cache-Control", "no-cache");
  reply->begin_stream(std::move(head));
  std::make_shared<Follower>(std::move(stored), first, std::move(reply))->begin();
}

}  // namespace quire::server
