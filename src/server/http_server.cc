#include "server/http_server.h"

#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <future>
#include <system_error>
#include <thread>

#include "base/log.h"
#include "chat/chat_prompt.h"
#include "engine/async_engine.h"
#include "server/adapters/adapter_routes.h"
#include "server/api.h"
#include "server/heap_trimmer.h"
#include "server/http/api_error.h"
#include "server/http/connection.h"
#include "server/http/worker_pool.h"

namespace quire {
namespace {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;
using server::Connection;
using server::ConnectionShared;
using Tcp = asio::ip::tcp;
using Local = asio::local::stream_protocol;

void refuse_connection(Connection::Socket socket) {
  server::ApiError error = server::api_error(503, "the server has as many connections as it may");
  error.retry_after_s = 1;
  const server::HttpResponse response = server::error_response(error);
  const std::string text =
      server::response_head(
          response, {11, false, response.body.size(), server::http_date(std::time(nullptr))}) +
      response.body;
  ErrorCode ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(asio::buffer(text), ignored);
}

Result<Tcp::acceptor> open_tcp(asio::io_context& io, const asio::any_io_executor& executor,
                               const ServerOptions& options) {
  ErrorCode ec;
  Tcp::resolver resolver(io);
  std::string host = options.host;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const auto found =
      resolver.resolve(host, std::to_string(options.port), Tcp::resolver::passive, ec);
  if (ec || found.empty()) {
    return invalid_argument("--host {}: not an address that can be listened on", options.host);
  }
  const Tcp::endpoint endpoint = found.begin()->endpoint();
  Tcp::acceptor acceptor(executor);
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(Tcp::acceptor::reuse_address(true), ec);
  if (!ec && endpoint.address().is_v6()) acceptor.set_option(asio::ip::v6_only(false), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(4096, ec);
  if (ec) {
    return unavailable("cannot listen on {} port {}: {}", options.host, options.port, ec.message());
  }
  return acceptor;
}

// The system holds little that the client has no room for: what a slow client leaves then shows
// here, where it counts.
void keep_unsent_here(int socket) {
  constexpr int kMaxUnsentBytes = 16 * 1024;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kMaxUnsentBytes, sizeof kMaxUnsentBytes);
}

bool is_socket(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode);
}

Status check_local(asio::io_context& io, const std::string& path) {
  if (path.size() >= 108) {
    return invalid_argument("--uds: expected a path of at most 107 bytes, got {}", path.size());
  }
  if (!is_socket(path)) {
    const size_t slash = path.rfind('/');
    const std::string folder = slash == path.npos ? "." : path.substr(0, slash + 1);
    if (::access(path.c_str(), F_OK) == 0) {
      return unavailable("--uds {}: there is another file of that name", path);
    }
    if (::access(folder.c_str(), W_OK) != 0) {
      return unavailable("--uds {}: no socket can be made in {}", path, folder);
    }
    return {};
  }
  ErrorCode probe_error;
  Local::socket probe(io);
  probe.connect(Local::endpoint(path), probe_error);
  if (!probe_error) return unavailable("--uds {}: another server listens there", path);
  return {};
}

class HttpServerImpl final : public HttpServer {
 public:
  HttpServerImpl(ServerOptions options, ServedModel model)
      : options_(std::move(options)),
        io_(std::make_shared<asio::io_context>(options_.num_io_threads)),
        strand_(asio::make_strand(*io_)),
        workers_(options_.num_worker_threads, options_.limits.queued_work),
        api_(options_, std::move(model), workers_),
        shared_(std::make_shared<ConnectionShared>()) {
    shared_->limits = options_.limits;
    shared_->handler = &api_;
    shared_->io = io_;
  }
  ~HttpServerImpl() override { stop(); }

  Status start() override;
  uint16_t port() const override { return port_; }
  void begin_drain() override {
    api_.begin_drain();
    shared_->closing.store(true);
  }
  bool wait_idle(int64_t timeout_ms) const override;
  void stop() override;
  size_t num_connections() const override {
    const std::lock_guard lock(shared_->mutex);
    return shared_->open.size();
  }

 private:
  Status listen_tcp();
  Status listen_local();
  template <typename Protocol>
  void accept_next(asio::basic_socket_acceptor<Protocol>& acceptor);
  void on_accepted(Connection::Socket socket);
  void trim_later();

  ServerOptions options_;
  std::shared_ptr<asio::io_context> io_;                  // shared with the engine's wake-up calls
  asio::strand<asio::io_context::executor_type> strand_;  // the acceptors and their timer
  server::WorkerPool workers_;
  server::Api api_;
  std::shared_ptr<ConnectionShared> shared_;  // shared with every connection
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work_;
  std::optional<Tcp::acceptor> tcp_;
  std::optional<Local::acceptor> local_;
  std::optional<asio::steady_timer> retry_;
  std::optional<asio::steady_timer> trim_timer_;
  server::HeapTrimmer trimmer_;
  std::vector<std::thread> threads_;
  uint16_t port_ = 0;
  bool started_ = false;
  bool stopped_ = false;
};

Status HttpServerImpl::listen_tcp() {
  QUIRE_ASSIGN_OR_RETURN(tcp_, open_tcp(*io_, strand_, options_));
  ErrorCode ignored;
  port_ = tcp_->local_endpoint(ignored).port();
  accept_next(*tcp_);
  return {};
}

Status HttpServerImpl::listen_local() {
  QUIRE_RETURN_IF_ERROR(check_local(*io_, options_.uds));
  // A socket file left behind by a process that is gone would make bind fail.
  if (is_socket(options_.uds)) ::unlink(options_.uds.c_str());
  ErrorCode ec;
  local_.emplace(strand_);
  local_->open(Local(), ec);
  if (!ec) local_->bind(Local::endpoint(options_.uds), ec);
  if (!ec) local_->listen(4096, ec);
  if (ec) return unavailable("cannot listen on {}: {}", options_.uds, ec.message());
  accept_next(*local_);
  return {};
}

Status HttpServerImpl::start() {
  QUIRE_CHECK(!started_, "start() is called once");
  work_.emplace(asio::make_work_guard(*io_));
  retry_.emplace(strand_);
  trim_timer_.emplace(strand_);
  QUIRE_RETURN_IF_ERROR(options_.uds.empty() ? listen_tcp() : listen_local());
  started_ = true;
  try {
    workers_.start(api_.thread_times());
    for (int32_t i = 0; i < options_.num_io_threads; ++i) {
      api_.thread_times().add(threads_.emplace_back([io = io_] { io->run(); }));
    }
  } catch (const std::system_error& e) {
    return unavailable("the server's threads: {}", e.what());
  }
  asio::post(strand_, [this] { trim_later(); });
  return {};
}

template <typename Protocol>
void HttpServerImpl::accept_next(asio::basic_socket_acceptor<Protocol>& acceptor) {
  acceptor.async_accept(asio::make_strand(*io_),
                        [this, &acceptor](const ErrorCode& ec, auto socket) {
                          if (ec == asio::error::operation_aborted || !acceptor.is_open()) return;
                          if (ec) {
                            // Out of descriptors, most likely: a pause lets some be freed.
                            retry_->expires_after(std::chrono::milliseconds(50));
                            retry_->async_wait([this, &acceptor](const ErrorCode& stopped) {
                              if (!stopped) accept_next(acceptor);
                            });
                            return;
                          }
                          if constexpr (std::is_same_v<Protocol, Tcp>) {
                            ErrorCode ignored;
                            socket.set_option(Tcp::no_delay(true), ignored);
                            keep_unsent_here(socket.native_handle());
                          }
                          try {
                            on_accepted(Connection::Socket(std::move(socket)));
                          } catch (const std::exception& e) {  // this client is turned away
                            log_error("accepting: {}", e.what());
                          }
                          accept_next(acceptor);
                        });
}

// Once a second, on a worker: a large heap takes a while. On the strand.
void HttpServerImpl::trim_later() {
  if (shared_->stopped.load()) return;
  trim_timer_->expires_after(std::chrono::seconds(1));
  trim_timer_->async_wait([this](const ErrorCode& stopped) {
    if (stopped) return;
    const bool queued = workers_.try_post([this] {
      trimmer_.look();
      asio::post(strand_, [this] { trim_later(); });
    });
    if (!queued) trim_later();
  });
}

void HttpServerImpl::on_accepted(Connection::Socket socket) {
  if (num_connections() >= options_.limits.max_connections) {
    refuse_connection(std::move(socket));
    return;
  }
  auto connection = std::make_shared<Connection>(std::move(socket), shared_);
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->open.emplace(connection.get(), connection);
  }
  connection->start();
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
  if (!started_ || stopped_) return;
  stopped_ = true;
  begin_drain();
  shared_->stopped.store(true);
  std::promise<void> closed;
  asio::post(strand_, [this, &closed] {
    ErrorCode ignored;
    if (tcp_) tcp_->close(ignored);
    if (local_) local_->close(ignored);
    retry_->cancel();
    trim_timer_->cancel();
    closed.set_value();
  });
  if (threads_.empty()) io_->poll();  // start() got none
  closed.get_future().wait();
  workers_.stop();
  std::vector<std::shared_ptr<Connection>> open;
  {
    const std::lock_guard lock(shared_->mutex);
    for (const auto& [key, connection] : shared_->open) {
      if (auto alive = connection.lock()) open.push_back(std::move(alive));
    }
  }
  for (const auto& connection : open) connection->stop();
  open.clear();
  work_.reset();  // the threads leave when the last connection is closed
  for (std::thread& thread : threads_) thread.join();
  if (!options_.uds.empty()) ::unlink(options_.uds.c_str());
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

Status HttpServer::check(const ServerOptions& options) {
  QUIRE_RETURN_IF_ERROR(check_options(options));
  asio::io_context io;
  if (!options.uds.empty()) return check_local(io, options.uds);
  return open_tcp(io, io.get_executor(), options).status();
}

Result<std::unique_ptr<HttpServer>> HttpServer::create(ServerOptions options, ServedModel model) {
  if (model.names.empty() || model.engine == nullptr) {
    return invalid_argument("a served model needs a name and an engine");
  }
  for (const std::string& name : model.names) {
    if (name.empty()) return invalid_argument("--served-model-name: expected a non-empty name");
  }
  QUIRE_RETURN_IF_ERROR(check_options(options));
  QUIRE_RETURN_IF_ERROR(server::check_adapter_names(model));
  while (options.root_path.ends_with('/')) options.root_path.pop_back();
  if (!options.root_path.empty() && options.root_path.front() != '/') {
    options.root_path.insert(0, 1, '/');
  }
  return std::unique_ptr<HttpServer>(
      std::make_unique<HttpServerImpl>(std::move(options), std::move(model)));
}

}  // namespace quire
