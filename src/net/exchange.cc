#include "net/exchange.h"

#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <system_error>
#include <thread>

namespace quire::net {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using ErrorCode = boost::system::error_code;
using Tcp = asio::ip::tcp;
using Steady = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr uint32_t kMaxHeadBytes = 64 * 1024;
constexpr size_t kPieceBytes = 64 * 1024;
constexpr milliseconds kLookEvery{100};  // how often is_stopped() is called

struct Addresses {
  ErrorCode error;
  Tcp::resolver::results_type found;
};

// Looks up a host on a thread of its own, because the system's lookup cannot be interrupted. Nobody
// joins the thread, so a caller that no longer waits leaves it behind. nullopt: there is no thread.
std::optional<std::future<Addresses>> begin_lookup(const std::string& host,
                                                   const std::string& port) {
  std::packaged_task<Addresses()> task([host, port] {
    asio::io_context io;
    Addresses addresses;
    addresses.found = Tcp::resolver(io).resolve(host, port, addresses.error);
    return addresses;
  });
  std::future<Addresses> lookup = task.get_future();
  try {
    std::thread(std::move(task)).detach();
  } catch (const std::system_error&) {
    return std::nullopt;
  }
  return lookup;
}

// A Connection begins each step and then waits for its end, on the calling thread.
class Connection {
 public:
  Connection(const Url& url, const ExchangeOptions& options)
      : url_(url), options_(options), socket_(io_) {
    if (options.total_timeout_ms > 0) end_ = Steady::now() + milliseconds(options.total_timeout_ms);
  }

  Status open();
  Status send(const Request& request);
  Status receive(bool is_head, AnswerSink& sink);

 private:
  using Parser = http::response_parser<http::buffer_body>;

  template <typename IsDone>
  Status wait(int64_t timeout_ms, IsDone is_done_within);
  template <typename Begin>
  Status run(int64_t timeout_ms, ErrorCode& error, Begin begin);
  Result<Tcp::resolver::results_type> look_up();
  template <typename Work>
  void on_stream(Work work) {
    if (tls_ != nullptr) {
      work(*tls_);
    } else {
      work(socket_);
    }
  }
  Status expect_host(SSL* session) const;
  Status agree_on_keys();
  Status receive_body(Parser& parser, AnswerSink& sink);
  void give_up();
  template <typename... Args>
  Status failed(fmt::format_string<Args...> why, Args&&... args) const {
    return unavailable("{}:{}: {}", url_.host, url_.port,
                       fmt::format(why, std::forward<Args>(args)...));
  }

  const Url& url_;
  const ExchangeOptions& options_;
  asio::io_context io_{1};
  Tcp::socket socket_;
  std::unique_ptr<asio::ssl::stream<Tcp::socket&>> tls_;  // null: no TLS
  boost::beast::flat_buffer buffer_;
  std::optional<Steady::time_point> end_;
};

// Waits until a step is done. `is_done_within(time)` waits for at most that time and returns whether
// the step is done. The returned status reports a timeout or a stop.
template <typename IsDone>
Status Connection::wait(int64_t timeout_ms, IsDone is_done_within) {
  Steady::time_point end = Steady::now() + milliseconds(timeout_ms);
  if (end_ && *end_ < end) {
    end = *end_;
    timeout_ms = options_.total_timeout_ms;
  }
  while (true) {
    if (options_.is_stopped && options_.is_stopped()) return cancelled("stopped");
    const Steady::time_point now = Steady::now();
    if (now >= end) return failed("no answer within {} ms", timeout_ms);
    if (is_done_within(std::min<Steady::duration>(kLookEvery, end - now))) return {};
  }
}

// Runs one step. `begin` starts an operation and gives it a handler of (error, …). `error` is set
// to the result of the operation. The returned status only reports a timeout or a stop.
template <typename Begin>
Status Connection::run(int64_t timeout_ms, ErrorCode& error, Begin begin) {
  bool is_done = false;
  begin([&](const ErrorCode& ec, const auto&...) {
    error = ec;
    is_done = true;
  });
  io_.restart();
  const Status status = wait(timeout_ms, [&](Steady::duration time) {
    io_.run_one_for(time);
    return is_done;
  });
  if (!status.ok()) give_up();
  return status;
}

// Waits for the running handlers, because they refer to variables on the stack.
void Connection::give_up() {
  ErrorCode ignored;
  socket_.close(ignored);
  io_.run();
}

Result<Tcp::resolver::results_type> Connection::look_up() {
  std::optional<std::future<Addresses>> lookup = begin_lookup(url_.host, url_.port);
  if (!lookup) return failed("no thread for looking up its name");
  QUIRE_RETURN_IF_ERROR(wait(options_.connect_timeout_ms, [&](Steady::duration time) {
    return lookup->wait_for(time) == std::future_status::ready;
  }));
  Addresses addresses = lookup->get();
  if (addresses.error) return failed("{}", addresses.error.message());
  return std::move(addresses.found);
}

Status Connection::open() {
  QUIRE_ASSIGN_OR_RETURN(const Tcp::resolver::results_type addresses, look_up());
  ErrorCode error;
  QUIRE_RETURN_IF_ERROR(run(options_.connect_timeout_ms, error,
                            [&](auto done) { asio::async_connect(socket_, addresses, done); }));
  if (error) return failed("{}", error.message());
  return url_.is_encrypted ? agree_on_keys() : Status();
}

// The certificate must be the host's. The host's name is also sent, so that a server of several
// hosts chooses the right certificate.
Status Connection::expect_host(SSL* session) const {
  ErrorCode is_name;
  asio::ip::make_address(url_.host, is_name);
  const char* const host = url_.host.c_str();
  const bool is_set =
      is_name ? SSL_set_tlsext_host_name(session, host) == 1 && SSL_set1_host(session, host) == 1
              : X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), host) == 1;
  return is_set ? Status() : failed("expected a name or an address of a host");
}

Status Connection::agree_on_keys() {
  if (options_.trust == nullptr) return failed("https is not spoken here");
  tls_ = std::make_unique<asio::ssl::stream<Tcp::socket&>>(socket_, *options_.trust);
  QUIRE_RETURN_IF_ERROR(expect_host(tls_->native_handle()));
  ErrorCode error;
  QUIRE_RETURN_IF_ERROR(run(options_.connect_timeout_ms, error, [&](auto done) {
    tls_->async_handshake(asio::ssl::stream_base::client, done);
  }));
  if (!error) return {};
  const int64_t verdict = SSL_get_verify_result(tls_->native_handle());
  if (verdict == X509_V_OK) return failed("TLS: {}", error.message());
  return failed("its certificate is not believed: {}", X509_verify_cert_error_string(verdict));
}

Status Connection::send(const Request& request) {
  http::request<http::string_body> message;
  message.version(11);
  message.method_string(request.method);
  message.target(url_.target);
  message.set(http::field::host, url_.authority());
  message.set(http::field::user_agent, "quire");
  message.set(http::field::connection, "close");
  for (const auto& [name, value] : request.headers) message.set(name, value);
  message.body() = request.body;
  message.prepare_payload();
  ErrorCode error;
  QUIRE_RETURN_IF_ERROR(run(options_.quiet_timeout_ms, error, [&](auto done) {
    on_stream([&](auto& stream) { http::async_write(stream, message, done); });
  }));
  return error ? failed("{}", error.message()) : Status();
}

Status Connection::receive(bool is_head, AnswerSink& sink) {
  Parser parser;
  parser.header_limit(kMaxHeadBytes);
  parser.body_limit(boost::none);
  parser.skip(is_head);
  ErrorCode error;
  QUIRE_RETURN_IF_ERROR(run(options_.quiet_timeout_ms, error, [&](auto done) {
    on_stream([&](auto& stream) { http::async_read_header(stream, buffer_, parser, done); });
  }));
  if (error == http::error::end_of_stream || error == asio::ssl::error::stream_truncated)
    return failed("it closed the connection without an answer");
  if (error) return failed("{}", error.message());
  AnswerHead head{
      .status = static_cast<int>(parser.get().result_int()), .headers = {}, .length = {}};
  for (const auto& field : parser.get())
    head.headers.emplace_back(field.name_string(), field.value());
  if (const auto length = parser.content_length()) head.length = *length;
  QUIRE_RETURN_IF_ERROR(sink.on_head(head));
  return receive_body(parser, sink);
}

Status Connection::receive_body(Parser& parser, AnswerSink& sink) {
  std::array<char, kPieceBytes> piece;
  while (!parser.is_done()) {
    auto& body = parser.get().body();
    body.data = piece.data();
    body.size = piece.size();
    body.more = true;
    ErrorCode error;
    QUIRE_RETURN_IF_ERROR(run(options_.quiet_timeout_ms, error, [&](auto done) {
      on_stream([&](auto& stream) { http::async_read_some(stream, buffer_, parser, done); });
    }));
    if (const size_t size = piece.size() - body.size; size > 0)
      QUIRE_RETURN_IF_ERROR(sink.on_body({piece.data(), size}));
    if (!error || error == http::error::need_buffer) continue;
    const bool is_cut = error == http::error::partial_message ||
                        error == http::error::end_of_stream ||
                        error == asio::ssl::error::stream_truncated;
    return is_cut ? failed("the connection was closed before the answer was whole")
                  : failed("{}", error.message());
  }
  return {};
}

class TextSink final : public AnswerSink {
 public:
  explicit TextSink(size_t max_bytes) : max_bytes_(max_bytes) {}
  Status on_head(const AnswerHead& head) override {
    status_ = head.status;
    return {};
  }
  Status on_body(std::string_view piece) override {
    if (text_.size() + piece.size() > max_bytes_)
      return too_large("expected an answer of at most {} bytes, got more", max_bytes_);
    text_ += piece;
    return {};
  }
  int status() const { return status_; }
  std::string take() { return std::move(text_); }

 private:
  const size_t max_bytes_;
  int status_ = 0;
  std::string text_;
};

}  // namespace

std::string_view AnswerHead::header(std::string_view name) const {
  for (const auto& [known, value] : headers) {
    if (boost::beast::iequals(known, name)) return value;
  }
  return {};
}

Status exchange(const Url& url, const Request& request, const ExchangeOptions& options,
                AnswerSink& sink) {
  Connection connection(url, options);
  QUIRE_RETURN_IF_ERROR(connection.open());
  QUIRE_RETURN_IF_ERROR(connection.send(request));
  return connection.receive(request.method == "HEAD", sink);
}

Status status_error(const Url& url, int status) {
  const std::string said =
      fmt::format("{}:{}{}: status {}", url.host, url.port, url.target, status);
  if (status == 404) return not_found("{}", said);
  if (status >= 400 && status < 500) return invalid_argument("{}", said);
  return unavailable("{}", said);
}

Result<std::string> ask(const Url& url, const Request& request, const ExchangeOptions& options,
                        size_t max_bytes) {
  TextSink sink(max_bytes);
  QUIRE_RETURN_IF_ERROR(exchange(url, request, options, sink));
  if (sink.status() >= 200 && sink.status() < 300) return sink.take();
  return status_error(url, sink.status());
}

}  // namespace quire::net
