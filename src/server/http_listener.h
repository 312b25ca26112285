// The sockets of a server: where it listens, and the threads that serve its connections.
//
//   HttpListener listener(options, handler);
//   QUIRE_RETURN_IF_ERROR(listener.start({}));
//   … listener.port() …
//   listener.stop();
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/result.h"
#include "server/http/connection.h"
#include "server/http/connection_handler.h"
#include "server/http/server_options.h"

namespace quire::server {

class HttpListener {
 public:
  // What start() would refuse of the address.
  static Status check(const ServerOptions& options);

  // `handler` outlives the listener.
  HttpListener(const ServerOptions& options, RequestHandler& handler);
  ~HttpListener() { stop(); }
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  // Binds, listens and starts the threads, each of which `on_thread` is told of. Once.
  Status start(const std::function<void(std::thread& thread)>& on_thread);
  uint16_t port() const { return port_; }
  // Shared with whoever posts work to it when the listener may be gone.
  const std::shared_ptr<boost::asio::io_context>& io() const { return io_; }
  size_t num_connections() const;
  bool is_running() const { return started_; }

  // Reads the certificate and key again, for connections to come; on an error all stays as it was.
  Status reload_tls();
  // Connections close when they have answered.
  void begin_drain() { shared_->closing.store(true); }
  // Takes no more connections. Once started, before stop().
  void stop_listening();
  // Closes every connection and joins the threads. Idempotent.
  void stop();

 private:
  using Tcp = boost::asio::ip::tcp;
  using Local = boost::asio::local::stream_protocol;

  Status listen_tcp();
  Status listen_local();
  template <typename Protocol>
  void accept_next(boost::asio::basic_socket_acceptor<Protocol>& acceptor);
  void on_accepted(Connection::Socket socket);

  const ServerOptions options_;
  std::shared_ptr<boost::asio::io_context> io_;
  // Of the acceptors and their timer.
  boost::asio::strand<boost::asio::io_context::executor_type> strand_;
  std::shared_ptr<ConnectionShared> shared_;  // shared with every connection
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> work_;
  std::optional<Tcp::acceptor> tcp_;
  std::optional<Local::acceptor> local_;
  std::optional<boost::asio::steady_timer> retry_;
  std::vector<std::thread> threads_;
  uint16_t port_ = 0;
  bool started_ = false;
  bool listening_ = false;
};

}  // namespace quire::server
