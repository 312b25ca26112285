#include "server/generation/background_calls.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "server/generation/loop_reply.h"

namespace quire::server {
namespace {

namespace asio = boost::asio;

// A DetachedReply drops what is written to it. The call's writer stores what clients can read
// later.
class DetachedReply final : public LoopReply {
 public:
  using LoopReply::disconnect;
  using LoopReply::LoopReply;

  void send(HttpResponse response) override {
    if (!accepted_) refusal_ = std::move(response);
    end_stream();
  }
  void begin_stream(HttpResponse) override {}
  void write(std::string_view) override {}
  void end_stream() override { release_call(); }

  // Returns the answer that came before accept(), which says why the call was refused.
  std::optional<HttpResponse> take_refusal() { return std::exchange(refusal_, std::nullopt); }
  void accept() { accepted_ = true; }

 private:
  void on_failure(const std::string& why) override {
    log_warn("a background call failed: {}", why);
    disconnect();
  }

  std::optional<HttpResponse> refusal_;
  bool accepted_ = false;
};

}  // namespace

struct BackgroundCalls::Impl {
  Impl() : work(asio::make_work_guard(*io)), thread([io = io] { io->run(); }) {}
  ~Impl() {
    // The calls are stopped on their own thread, so that no two threads use a call.
    asio::post(*io, [this] {
      for (const std::weak_ptr<DetachedReply>& weak : running) {
        if (const auto reply = weak.lock()) reply->disconnect();
      }
      io->stop();
    });
    thread.join();
  }

  void start(const std::shared_ptr<ReplyChannel>& reply, PreparedCall prepared, AsyncEngine& engine,
             GenerationCall::Options options) {
    const auto detached = prepared.detached;
    const HeaderList headers = options.headers;
    const auto own = std::make_shared<DetachedReply>(io);
    std::erase_if(running, [](const auto& other) { return other.expired(); });
    running.push_back(own);
    detached->set_cancel([io = io, weak = std::weak_ptr(own)] {
      asio::post(*io, [weak] {
        if (const auto live = weak.lock()) live->disconnect();
      });
    });
    GenerationCall::run(own, std::move(prepared), engine, std::move(options));
    own->accept();
    if (std::optional<HttpResponse> refusal = own->take_refusal()) {
      detached->drop();
      auto shared = std::make_shared<HttpResponse>(std::move(*refusal));
      reply->poster()([reply, shared] { reply->send(std::move(*shared)); });
      return;
    }
    reply->poster()([reply, detached, headers] { detached->accept(reply, headers); });
  }

  // Shared with calls by the engine that may still come.
  std::shared_ptr<asio::io_context> io = std::make_shared<asio::io_context>(1);
  asio::executor_work_guard<asio::io_context::executor_type> work;
  std::vector<std::weak_ptr<DetachedReply>> running;  // used by the thread only
  std::thread thread;
};

BackgroundCalls::BackgroundCalls() : impl_(std::make_unique<Impl>()) {}

BackgroundCalls::~BackgroundCalls() = default;

void BackgroundCalls::run(std::shared_ptr<ReplyChannel> reply, PreparedCall prepared,
                          AsyncEngine& engine, GenerationCall::Options options) {
  struct Start {
    std::shared_ptr<ReplyChannel> reply;
    PreparedCall prepared;
    GenerationCall::Options options;
  };
  auto start =
      std::make_shared<Start>(Start{std::move(reply), std::move(prepared), std::move(options)});
  asio::post(*impl_->io, [impl = impl_.get(), start, &engine] {
    try {
      impl->start(start->reply, std::move(start->prepared), engine, std::move(start->options));
    } catch (...) {  // the connection handles it on its strand
      start->reply->poster()(
          [failure = std::current_exception()] { std::rethrow_exception(failure); });
    }
  });
}

}  // namespace quire::server
