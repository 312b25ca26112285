#include "server/http_listener.h"

#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/ip/v6_only.hpp>
#include <chrono>
#include <ctime>
#include <future>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "server/http/api_error.h"

namespace quire::server {
namespace {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;
using Tcp = asio::ip::tcp;
using Local = asio::local::stream_protocol;

void refuse_connection(Connection::Socket socket) {
  ApiError error = api_error(503, "the server has as many connections as it may");
  error.retry_after_s = 1;
  const HttpResponse response = error_response(error);
  const std::string text =
      response_head(response, {11, false, response.body.size(), http_date(std::time(nullptr))}) +
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

// Limits how many unsent bytes the system holds for a client, so that the bytes that a slow client
// leaves are seen and counted in this process.
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

}  // namespace

Status HttpListener::check(const ServerOptions& options) {
  asio::io_context io;
  if (!options.uds.empty() && options.tls.any())
    return invalid_argument("--ssl-certfile: expected a port, got --uds, which no network reaches");
  QUIRE_RETURN_IF_ERROR(load_tls(options.tls).status());
  if (!options.uds.empty()) return check_local(io, options.uds);
  return open_tcp(io, io.get_executor(), options).status();
}

HttpListener::HttpListener(const ServerOptions& options, RequestHandler& handler)
    : options_(options),
      io_(std::make_shared<asio::io_context>(options.num_io_threads)),
      strand_(asio::make_strand(*io_)),
      shared_(std::make_shared<ConnectionShared>()) {
  shared_->limits = options.limits;
  shared_->handler = &handler;
  shared_->io = io_;
}

size_t HttpListener::num_connections() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->open.size();
}

Status HttpListener::listen_tcp() {
  QUIRE_ASSIGN_OR_RETURN(tcp_, open_tcp(*io_, strand_, options_));
  ErrorCode ignored;
  port_ = tcp_->local_endpoint(ignored).port();
  accept_next(*tcp_);
  return {};
}

Status HttpListener::listen_local() {
  QUIRE_RETURN_IF_ERROR(check_local(*io_, options_.uds));
  // A socket file that a dead process left would make bind fail.
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

Status HttpListener::start(ThreadTimes* times) {
  QUIRE_CHECK(!started_, "start() is called once");
  work_.emplace(asio::make_work_guard(*io_));
  retry_.emplace(strand_);
  QUIRE_RETURN_IF_ERROR(reload_tls());
  QUIRE_RETURN_IF_ERROR(options_.uds.empty() ? listen_tcp() : listen_local());
  started_ = listening_ = true;
  try {
    for (int32_t i = 0; i < options_.num_io_threads; ++i) {
      threads_.emplace_back([io = io_, times] {
        std::optional<ThreadTimes::Scope> scope;
        if (times != nullptr) scope.emplace(*times);
        io->run();
      });
    }
  } catch (const std::system_error& e) {
    stop();
    return unavailable("the server's threads: {}", e.what());
  }
  return {};
}

Status HttpListener::reload_tls() {
  QUIRE_ASSIGN_OR_RETURN(TlsContext tls, load_tls(options_.tls));
  const std::lock_guard lock(shared_->mutex);
  shared_->tls = std::move(tls);
  return {};
}

template <typename Protocol>
void HttpListener::accept_next(asio::basic_socket_acceptor<Protocol>& acceptor) {
  acceptor.async_accept(asio::make_strand(*io_),
                        [this, &acceptor](const ErrorCode& ec, auto socket) {
                          if (ec == asio::error::operation_aborted || !acceptor.is_open()) return;
                          if (ec) {
                            // The process is most likely out of file descriptors. The pause lets
                            // some be freed.
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
                          } catch (const std::exception& e) {  // this client is refused
                            log_error("accepting: {}", e.what());
                          }
                          accept_next(acceptor);
                        });
}

void HttpListener::on_accepted(Connection::Socket socket) {
  if (num_connections() >= shared_->limits.max_connections) {
    // A client that expects a TLS handshake could not read the answer.
    if (!options_.tls.any()) refuse_connection(std::move(socket));
    return;
  }
  TlsContext tls;
  {
    const std::lock_guard lock(shared_->mutex);
    tls = shared_->tls;
  }
  auto connection = std::make_shared<Connection>(std::move(socket), std::move(tls), shared_);
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->open.emplace(connection.get(), connection);
  }
  connection->start();
}

void HttpListener::stop_listening() {
  if (!std::exchange(listening_, false)) return;
  begin_drain();
  shared_->stopped.store(true);
  std::promise<void> closed;
  asio::post(strand_, [this, &closed] {
    ErrorCode ignored;
    if (tcp_) tcp_->close(ignored);
    if (local_) local_->close(ignored);
    retry_->cancel();
    closed.set_value();
  });
  if (threads_.empty()) io_->poll();  // start() started none
  closed.get_future().wait();
}

void HttpListener::stop() {
  if (!std::exchange(started_, false)) return;
  stop_listening();
  std::vector<std::shared_ptr<Connection>> open;
  {
    const std::lock_guard lock(shared_->mutex);
    for (const auto& [key, connection] : shared_->open) {
      if (auto alive = connection.lock()) open.push_back(std::move(alive));
    }
  }
  for (const auto& connection : open) connection->stop();
  open.clear();
  work_.reset();  // the threads end when the last connection is closed
  for (std::thread& thread : threads_) thread.join();
  if (!options_.uds.empty()) ::unlink(options_.uds.c_str());
}

}  // namespace quire::server
