#include "server/batch/local_api.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "server/api.h"
#include "server/http/api_error.h"
#include "server/http/worker_pool.h"

namespace quire::server {
namespace {

namespace asio = boost::asio;

// Collects an answer. Used on the one thread of the io_context, which is its strand.
class CollectedReply final : public ReplyChannel,
                             public std::enable_shared_from_this<CollectedReply> {
 public:
  CollectedReply(std::shared_ptr<asio::io_context> io, LocalApi::OnAnswer on_answer)
      : io_(std::move(io)), on_answer_(std::move(on_answer)) {}

  void send(HttpResponse response) override {
    // The call may be what is sending: it goes when it has come back.
    asio::post(*io_, [call = std::move(call_)] {});
    if (auto on_answer = std::exchange(on_answer_, nullptr)) on_answer(std::move(response));
  }
  void begin_stream(HttpResponse head) override { head_ = std::move(head); }
  void write(std::string_view data) override { head_.body += data; }
  void end_stream() override { send(std::move(head_)); }
  bool wants_more() const override { return true; }
  void attach(std::shared_ptr<OngoingCall> call) override { call_ = std::move(call); }

  std::function<void(std::function<void()>)> poster() override {
    return [io = io_, self = weak_from_this()](std::function<void()> work) {
      asio::post(*io, [self, work = std::move(work)] {
        try {
          work();
        } catch (const std::exception& e) {
          if (const auto reply = self.lock())
            reply->send(
                error_response(api_error(500, fmt::format("internal error: {}", e.what()))));
        }
      });
    };
  }

 private:
  std::shared_ptr<asio::io_context> io_;
  LocalApi::OnAnswer on_answer_;
  HttpResponse head_;
  std::shared_ptr<OngoingCall> call_;
};

ServerOptions without_keys(ServerOptions options) {
  options.api_keys.clear();
  return options;
}

}  // namespace

struct LocalApi::Impl {
  Impl(const ServerOptions& options, ServedModel model)
      : workers(options.num_worker_threads, options.limits.queued_work),
        api(options, std::move(model), workers),
        work(asio::make_work_guard(*io)),
        thread([io = io] { io->run(); }) {
    workers.start(api.thread_times());
  }
  ~Impl() {
    io->stop();
    thread.join();
    workers.stop();
  }

  // Shared with calls of the engine that may still come.
  std::shared_ptr<asio::io_context> io = std::make_shared<asio::io_context>(1);
  WorkerPool workers;
  Api api;
  asio::executor_work_guard<asio::io_context::executor_type> work;
  std::thread thread;
};

LocalApi::LocalApi(ServerOptions options, ServedModel model)
    : impl_(std::make_unique<Impl>(without_keys(std::move(options)), std::move(model))) {}

LocalApi::~LocalApi() = default;

void LocalApi::call(HttpRequest request, OnAnswer on_answer) {
  auto shared = std::make_shared<HttpRequest>(std::move(request));
  auto reply = std::make_shared<CollectedReply>(impl_->io, std::move(on_answer));
  // A reply and its call hold each other until the answer is sent.
  asio::post(*impl_->io, [api = &impl_->api, shared, reply] {
    if (std::optional<HttpResponse> refusal = api->on_head(*shared))
      return reply->send(std::move(*refusal));
    api->on_request(std::move(*shared), reply);
  });
}

}  // namespace quire::server
