#include "server/http_server.h"

#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <filesystem>
#include <future>
#include <system_error>
#include <thread>

#include "chat/chat_prompt.h"
#include "server/adapters/adapter_routes.h"
#include "server/api.h"
#include "server/batch_runner.h"
#include "server/files/batch_queue.h"
#include "server/heap_trimmer.h"
#include "server/http/worker_pool.h"
#include "server/http_listener.h"
#include "server/keys/key_book.h"
#include "server/telemetry/exporter.h"

namespace quire {
namespace {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;

class HttpServerImpl final : public HttpServer {
 public:
  HttpServerImpl(ServerOptions options, std::shared_ptr<server::ModelHost> models,
                 server::ApiParts parts)
      : models_(std::move(models)),
        parts_(std::move(parts)),
        workers_(options.num_worker_threads, options.limits.queued_work),
        api_(options, models_, workers_, parts_),
        listener_(options, api_),
        strand_(asio::make_strand(*listener_.io())),
        trim_timer_(strand_) {}
  ~HttpServerImpl() override { stop(); }

  Status start() override;
  uint16_t port() const override { return listener_.port(); }
  Status reload() override;
  void begin_drain() override {
    api_.begin_drain();
    listener_.begin_drain();
    if (parts_.batches != nullptr) parts_.batches->begin_stop();
  }
  bool wait_idle(int64_t timeout_ms) const override;
  void stop() override;
  size_t num_connections() const override { return listener_.num_connections(); }

 private:
  void trim_later();

  const std::shared_ptr<server::ModelHost> models_;
  const server::ApiParts parts_;
  server::WorkerPool workers_;
  server::Api api_;
  server::HttpListener listener_;
  asio::strand<asio::io_context::executor_type> strand_;  // used by the timer
  asio::steady_timer trim_timer_;
  server::HeapTrimmer trimmer_;
  bool started_ = false;
  std::atomic<bool> stopped_{false};
};

Status HttpServerImpl::reload() {
  const Status tls = listener_.reload_tls();
  const Status keys = parts_.keys == nullptr ? Status() : parts_.keys->reload(api_.now_us());
  const Status models = models_->reload();
  if (!tls.ok()) return tls;
  return keys.ok() ? models : keys;
}

Status HttpServerImpl::start() {
  QUIRE_RETURN_IF_ERROR(listener_.start(&api_.thread_times()));
  started_ = true;
  try {
    workers_.start(api_.thread_times());
    if (parts_.batches != nullptr) parts_.batches->start();
    if (parts_.exporter != nullptr) parts_.exporter->start([this] { return api_.metrics_text(); });
  } catch (const std::system_error& e) {
    return unavailable("the server's threads: {}", e.what());
  }
  asio::post(strand_, [this] { trim_later(); });
  return {};
}

// Trims the heap once a second, on a worker, because a large heap takes a while. It is called on
// the strand.
void HttpServerImpl::trim_later() {
  if (stopped_) return;
  trim_timer_.expires_after(std::chrono::seconds(1));
  trim_timer_.async_wait([this](const ErrorCode& stopped) {
    if (stopped) return;
    const bool queued = workers_.try_post([this] {
      trimmer_.look();
      asio::post(strand_, [this] { trim_later(); });
    });
    if (!queued) trim_later();
  });
}

bool HttpServerImpl::wait_idle(int64_t timeout_ms) const {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (api_.num_ongoing() > 0) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

void HttpServerImpl::stop() {
  if (!started_ || stopped_.exchange(true)) return;
  begin_drain();
  listener_.stop_listening();
  std::promise<void> cancelled;
  asio::post(strand_, [this, &cancelled] {
    trim_timer_.cancel();
    cancelled.set_value();
  });
  cancelled.get_future().wait();
  workers_.stop();
  listener_.stop();
  if (parts_.batches != nullptr) parts_.batches->stop();
  models_->stop();
  if (parts_.exporter != nullptr) parts_.exporter->stop();
}

// Returns null when the options name no file.
Result<std::shared_ptr<server::KeyBook>> open_keys(const ServerExtras& extras, bool has_priorities,
                                                   int64_t now_us) {
  if (extras.api_key_file.empty()) return std::shared_ptr<server::KeyBook>();
  auto keys = server::KeyBook::open(extras.api_key_file, has_priorities, now_us);
  if (!keys.ok()) return keys.status().with_context("--api-key-file");
  return std::shared_ptr<server::KeyBook>(std::move(keys).value());
}

Result<std::unique_ptr<server::BatchQueue>> open_batches(
    const ServerExtras& extras, const ServerOptions& options,
    const std::shared_ptr<server::ModelHost>& models) {
  return server::BatchQueue::open(
      {.dir = extras.files_dir,
       .files_bytes = extras.files_bytes,
       .concurrency = extras.batch_concurrency,
       .has_priorities = options.priority_scheduling,
       .run = [options,
               models](const BatchOptions& batch) { return run_batch(batch, options, models); },
       .is_alive = [models] { return models->healthy(); }});
}

Status check_extras(const ServerExtras& extras) {
  if (extras.files_bytes < 1)
    return invalid_argument("--max-files-size: expected at least 1 byte, got 0");
  if (extras.batch_concurrency < 1)
    return invalid_argument("--batch-concurrency: expected at least 1, got {}",
                            extras.batch_concurrency);
  QUIRE_RETURN_IF_ERROR(server::OtlpExporter::create(extras.otlp).status());
  return open_keys(extras, true, 0).status();
}

Status check_options(const ServerOptions& options) {
  if (options.limits.body_bytes < 1) {
    return invalid_argument("--max-body-size: expected at least 1 byte, got 0");
  }
  if (options.limits.answer_bytes < 1) {
    return invalid_argument("--max-answer-size: expected at least 1 byte, got 0");
  }
  if (options.num_io_threads < 1 || options.num_worker_threads < 1) {
    return invalid_argument("expected at least one IO thread and one worker thread");
  }
  for (const std::string& key : options.api_keys) {
    if (key.empty()) return invalid_argument("--api-key: expected a non-empty key");
  }
  if (options.limits.parsed_bytes < 1) {
    return invalid_argument("--max-parsed-size: expected at least 1 byte, got 0");
  }
  std::error_code ec;
  if (!options.lora_dir.empty() && !std::filesystem::is_directory(options.lora_dir, ec))
    return invalid_argument("--lora-dir: expected a folder, got {}", options.lora_dir);
  if (options.host.empty()) return invalid_argument("--host: expected an address, got none");
  return check_template_kwargs(options.default_chat_template_kwargs).with_context("default");
}

}  // namespace

Status HttpServer::check(const ServerOptions& options, const ServerExtras& extras) {
  QUIRE_RETURN_IF_ERROR(check_options(options));
  QUIRE_RETURN_IF_ERROR(check_extras(extras));
  return server::HttpListener::check(options);
}

Result<std::unique_ptr<HttpServer>> HttpServer::create(ServerOptions options, ServedModel model,
                                                       const ServerExtras& extras) {
  if (model.names.empty() || model.engine == nullptr) {
    return invalid_argument("a served model needs a name and an engine");
  }
  for (const std::string& name : model.names) {
    if (name.empty()) return invalid_argument("--served-model-name: expected a non-empty name");
  }
  QUIRE_RETURN_IF_ERROR(server::check_adapter_names(model));
  auto models = server::host_one_model(std::move(model), options);
  return create(std::move(options), std::move(models), extras);
}

Result<std::unique_ptr<HttpServer>> HttpServer::create(ServerOptions options,
                                                       std::shared_ptr<server::ModelHost> models,
                                                       const ServerExtras& extras) {
  QUIRE_RETURN_IF_ERROR(check_options(options));
  QUIRE_RETURN_IF_ERROR(check_extras(extras));
  while (options.root_path.ends_with('/')) options.root_path.pop_back();
  if (!options.root_path.empty() && options.root_path.front() != '/') {
    options.root_path.insert(0, 1, '/');
  }
  server::ApiParts parts;
  if (!extras.files_dir.empty()) {
    QUIRE_ASSIGN_OR_RETURN(parts.batches, open_batches(extras, options, models));
  }
  QUIRE_ASSIGN_OR_RETURN(parts.keys,
                         open_keys(extras, options.priority_scheduling, models->clock().now_us()));
  if (extras.otlp.is_on()) {
    QUIRE_ASSIGN_OR_RETURN(parts.exporter, server::OtlpExporter::create(extras.otlp));
  }
  return std::unique_ptr<HttpServer>(
      std::make_unique<HttpServerImpl>(std::move(options), std::move(models), std::move(parts)));
}

}  // namespace quire
