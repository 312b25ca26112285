#include "server/telemetry/http_client.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <utility>

namespace quire::server {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using ErrorCode = boost::system::error_code;

constexpr uint64_t kMaxAnswerBytes = 16 * 1024 * 1024;

// Each step begins the next; what went wrong stays in error_.
class Exchange {
 public:
  Exchange(asio::io_context& io, const HttpTarget& to, HttpRequest request)
      : resolver_(io), stream_(io), to_(to) {
    request_.version(11);
    request_.method_string(request.method);
    request_.target(to.target);
    request_.set(http::field::host, to.host);
    request_.set(http::field::user_agent, "quire");
    for (const auto& [name, value] : request.headers) request_.set(name, value);
    request_.body() = std::move(request.body);
    request_.prepare_payload();
    answer_.body_limit(kMaxAnswerBytes);
  }

  void start(std::chrono::milliseconds timeout) {
    stream_.expires_after(timeout);
    resolver_.async_resolve(to_.host, to_.port, [this](ErrorCode ec, const auto& addresses) {
      if (!failed(ec)) connect(addresses);
    });
  }
  const ErrorCode& error() const { return error_; }
  int status() const { return static_cast<int>(answer_.get().result_int()); }
  std::string take_body() { return std::move(answer_.get().body()); }

 private:
  void connect(const asio::ip::tcp::resolver::results_type& addresses) {
    stream_.async_connect(addresses, [this](ErrorCode ec, const auto&) {
      if (failed(ec)) return;
      http::async_write(stream_, request_, [this](ErrorCode write_error, size_t) {
        if (!failed(write_error)) read();
      });
    });
  }
  void read() {
    http::async_read(stream_, buffer_, answer_, [this](ErrorCode ec, size_t) { failed(ec); });
  }
  bool failed(ErrorCode ec) {
    error_ = ec;
    return static_cast<bool>(ec);
  }

  asio::ip::tcp::resolver resolver_;
  beast::tcp_stream stream_;
  const HttpTarget to_;
  http::request<http::string_body> request_;
  http::response_parser<http::string_body> answer_;
  beast::flat_buffer buffer_;
  ErrorCode error_;
};

}  // namespace

Result<std::string> ask_server(const HttpTarget& to, HttpRequest request, int64_t timeout_ms) {
  asio::io_context io(1);
  Exchange exchange(io, to, std::move(request));
  const std::chrono::milliseconds timeout(timeout_ms);
  exchange.start(timeout);
  io.run_for(timeout + std::chrono::milliseconds(100));  // a name may take longer than its time
  if (!io.stopped())
    return unavailable("{}:{}: no answer within {} ms", to.host, to.port, timeout_ms);
  if (exchange.error())
    return unavailable("{}:{}: {}", to.host, to.port, exchange.error().message());
  const int status = exchange.status();
  if (status >= 200 && status < 300) return exchange.take_body();
  if (status == 404) return not_found("{}:{}{}: status 404", to.host, to.port, to.target);
  if (status >= 400 && status < 500)
    return invalid_argument("{}:{}{}: status {}", to.host, to.port, to.target, status);
  return unavailable("{}:{}{}: status {}", to.host, to.port, to.target, status);
}

}  // namespace quire::server
