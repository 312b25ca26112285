#include "server/local_api.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "server/api.h"
#include "server/generation/loop_reply.h"
#include "server/http/api_error.h"
#include "server/http/worker_pool.h"

namespace quire::server {
namespace {

namespace asio = boost::asio;

// CollectedReply collects an answer.
class CollectedReply final : public LoopReply {
 public:
  CollectedReply(std::shared_ptr<asio::io_context> io, LocalApi::OnAnswer on_answer)
      : LoopReply(std::move(io)), on_answer_(std::move(on_answer)) {}

  void send(HttpResponse response) override {
    release_call();
    if (auto on_answer = std::exchange(on_answer_, nullptr)) on_answer(std::move(response));
  }
  void begin_stream(HttpResponse head) override { head_ = std::move(head); }
  void write(std::string_view data) override { head_.body += data; }
  void end_stream() override { send(std::move(head_)); }

 private:
  void on_failure(const std::string& why) override {
    send(error_response(api_error(500, fmt::format("internal error: {}", why))));
  }

  LocalApi::OnAnswer on_answer_;
  HttpResponse head_;
};

ServerOptions without_keys(ServerOptions options) {
  options.api_keys.clear();
  return options;
}

}  // namespace

struct LocalApi::Impl {
  Impl(const ServerOptions& options, std::shared_ptr<ModelHost> models)
      : workers(options.num_worker_threads, options.limits.queued_work),
        api(options, std::move(models), workers),
        work(asio::make_work_guard(*io)),
        thread([io = io] { io->run(); }) {
    workers.start(api.thread_times());
  }
  ~Impl() {
    io->stop();
    thread.join();
    workers.stop();
  }

  // Shared with calls by the engine that may still come.
  std::shared_ptr<asio::io_context> io = std::make_shared<asio::io_context>(1);
  WorkerPool workers;
  Api api;
  asio::executor_work_guard<asio::io_context::executor_type> work;
  std::thread thread;
};

LocalApi::LocalApi(ServerOptions options, std::shared_ptr<ModelHost> models)
    : impl_(std::make_unique<Impl>(without_keys(std::move(options)), std::move(models))) {}

LocalApi::~LocalApi() = default;

void LocalApi::call(HttpRequest request, OnAnswer on_answer) {
  auto shared = std::make_shared<HttpRequest>(std::move(request));
  auto reply = std::make_shared<CollectedReply>(impl_->io, std::move(on_answer));
  // A reply and its call own each other until the answer is sent.
  asio::post(*impl_->io, [api = &impl_->api, shared, reply] {
    if (std::optional<HttpResponse> refusal = api->on_head(*shared))
      return reply->send(std::move(*refusal));
    api->on_request(std::move(*shared), reply);
  });
}

}  // namespace quire::server
