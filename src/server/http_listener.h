// HttpListener owns a server's listening sockets and the threads that serve its connections.
//
//   HttpListener listener(options, handler);
//   QUIRE_RETURN_IF_ERROR(listener.start(nullptr));
//   … listener.port() …
//   listener.stop();
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/result.h"
#include "server/http/connection.h"
#include "server/http/connection_handler.h"
#include "server/http/server_options.h"
#include "server/http/thread_times.h"

namespace quire::server {

class HttpListener {
 public:
  // Returns the error that start() would return for the address.
  static Status check(const ServerOptions& options);

  // `handler` must outlive the listener.
  HttpListener(const ServerOptions& options, RequestHandler& handler);
  ~HttpListener() { stop(); }
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  // Binds, listens and starts the threads. It may be called once. `times` counts the threads' CPU
  // time and must outlive them; null: nobody asks for it.
  Status start(ThreadTimes* times);
  uint16_t port() const { return port_; }
  // Code that posts work when the listener may be gone shares this context.
  const std::shared_ptr<boost::asio::io_context>& io() const { return io_; }
  size_t num_connections() const;
  bool is_running() const { return started_; }

  // Reads the certificate and the key again, for new connections. After an error the old ones stay
  // in use.
  Status reload_tls();
  // Closes each connection after its current answer.
  void begin_drain() { shared_->closing.store(true); }
  // Accepts no more connections. It may be called after start() and before stop().
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
  // Used by the acceptors and their timer.
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
