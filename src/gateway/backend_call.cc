#include "gateway/backend_call.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "gateway/request_text.h"

namespace quire::gateway {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using ErrorCode = boost::system::error_code;

constexpr uint32_t kMostHeadBytes = 64 * 1024;

// A backend whose machine or network has failed sends nothing, and the gateway sends nothing while
// it waits for an answer. So the system probes the connection after kQuietTimeS, kMostProbes times.
// A busy backend's system answers the probes.
constexpr int kQuietTimeS = 10;
constexpr int kProbeIntervalS = 2;
constexpr int kMostProbes = 3;

void watch_peer(Tcp::socket& socket) {
  const int fd = socket.native_handle();
  const auto set = [fd](int level, int name, int value) {
    ::setsockopt(fd, level, name, &value,
                 sizeof value);  // without the option a failure is noticed later
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kQuietTimeS);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kProbeIntervalS);
  set(IPPROTO_TCP, TCP_KEEPCNT, kMostProbes);
  // The same limit applies to a request whose bytes are not acknowledged.
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, (kQuietTimeS + kMostProbes * kProbeIntervalS) * 1000);
}

// Returns whether an error means that the other side has closed the connection.
bool is_closed_by_peer(const ErrorCode& ec) {
  return ec == asio::error::eof || ec == asio::error::connection_reset ||
         ec == asio::error::connection_aborted || ec == asio::error::broken_pipe;
}

}  // namespace

BackendCall::BackendCall(const asio::any_io_executor& executor, std::shared_ptr<Backend> backend,
                         std::shared_ptr<BackendListener> listener, std::span<char> scratch,
                         Options options)
    : backend_(std::move(backend)),
      listener_(std::move(listener)),
      scratch_(scratch),
      options_(options),
      socket_(executor),
      timer_(executor) {}

void BackendCall::start(std::string request) {
  request_ = std::move(request);
  socket_ = backend_->take_idle(socket_.get_executor());
  is_reused_ = socket_.is_open();
  if (is_reused_) {
    send();
  } else {
    connect();
  }
}

void BackendCall::connect() {
  is_reused_ = false;
  if (backend_->endpoints.empty()) return fail("its address is not known");
  timer_.expires_after(options_.connect_timeout);
  timer_.async_wait([self = shared_from_this()](const ErrorCode& ec) {
    if (ec || self->parser_ || self->listener_ == nullptr) return;
    self->fail("it does not answer");
  });
  asio::async_connect(socket_, backend_->endpoints,
                      [self = shared_from_this()](const ErrorCode& ec, const Tcp::endpoint&) {
                        if (self->listener_ == nullptr) return;
                        if (ec)
                          return self->fail(fmt::format("cannot be reached: {}", ec.message()));
                        ErrorCode ignored;
                        self->socket_.set_option(Tcp::no_delay(true), ignored);
                        watch_peer(self->socket_);
                        self->send();
                      });
}

void BackendCall::send() {
  parser_.emplace();
  parser_->body_limit(boost::none);
  parser_->header_limit(kMostHeadBytes);
  parser_->skip(options_.is_head);
  if (options_.answer_timeout.count() > 0) {
    timer_.expires_after(options_.answer_timeout);
    timer_.async_wait([self = shared_from_this()](const ErrorCode& ec) {
      if (!ec && self->listener_ != nullptr) self->fail("it did not answer in time");
    });
  } else {
    timer_.cancel();
  }
  asio::async_write(socket_, asio::buffer(request_),
                    [self = shared_from_this()](const ErrorCode& ec, size_t) {
                      if (self->listener_ == nullptr) return;
                      if (ec) return self->on_broken(ec);
                      self->read();
                    });
}

// It waits without a buffer, so that ten thousand quiet streams hold no buffers.
void BackendCall::read() {
  if (is_waiting_ || listener_ == nullptr) return;
  is_waiting_ = true;
  socket_.async_wait(Tcp::socket::wait_read, [self = shared_from_this()](const ErrorCode& ec) {
    self->is_waiting_ = false;
    if (self->listener_ == nullptr) return;
    if (ec) return self->on_broken(ec);
    self->on_readable();
  });
}

void BackendCall::on_readable() {
  ErrorCode ec;
  socket_.non_blocking(true, ec);
  const size_t n = ec ? 0 : socket_.read_some(asio::buffer(scratch_.data(), scratch_.size()), ec);
  if (ec == asio::error::would_block) return read();
  if (ec == asio::error::eof && has_bytes_) {
    ErrorCode parse_error;
    parser_->put_eof(parse_error);
    if (!parse_error && parser_->is_done()) return finish();
    return fail("it closed the connection before its answer was whole");
  }
  if (ec) return on_broken(ec);
  has_bytes_ = true;
  const std::shared_ptr<BackendCall> self = shared_from_this();
  if (!take({scratch_.data(), n})) return;
  if (listener_->wants_more()) read();
}

bool BackendCall::take(std::string_view bytes) {
  const std::string joined =
      unparsed_.empty() ? std::string() : std::exchange(unparsed_, {}).append(bytes);
  if (!joined.empty()) bytes = joined;
  std::array<char, 16 * 1024> piece;
  while (!bytes.empty() && !parser_->is_done()) {
    auto& body = parser_->get().body();
    body.data = piece.data();
    body.size = piece.size();
    body.more = true;
    ErrorCode ec;
    const size_t n = parser_->put(asio::buffer(bytes.data(), bytes.size()), ec);
    bytes.remove_prefix(n);
    if (parser_->is_header_done() && !std::exchange(has_told_head_, true)) tell_head();
    if (listener_ == nullptr) return false;
    if (const size_t size = piece.size() - body.size; size > 0 && parser_->is_header_done())
      listener_->on_body({piece.data(), size});
    if (listener_ == nullptr) return false;
    if (ec == http::error::need_more) {
      unparsed_ = bytes;
      break;
    }
    if (ec && ec != http::error::need_buffer) {
      fail(fmt::format("its answer is no HTTP: {}", ec.message()));
      return false;
    }
  }
  if (!parser_->is_done()) return true;
  if (!bytes.empty()) {
    fail("it sent more than its answer");
  } else {
    finish();
  }
  return false;
}

void BackendCall::tell_head() {
  const auto& message = parser_->get();
  server::HttpResponse head{.status = static_cast<int>(message.result_int())};
  for (const auto& field : message) {
    const std::string_view name(field.name_string().data(), field.name_string().size());
    const std::string_view value(field.value().data(), field.value().size());
    if (field.name() == http::field::content_type) {
      head.content_type = value;
    } else if (field.name() != http::field::date) {  // the gateway's own server sets the date
      head.headers.emplace_back(name, value);
    }
  }
  drop_connection_headers(head.headers);
  const auto length = parser_->content_length();
  listener_->on_head(std::move(head), length ? std::optional<uint64_t>(*length) : std::nullopt);
}

void BackendCall::finish() {
  const std::shared_ptr<BackendListener> listener = std::move(listener_);
  listener_ = nullptr;
  timer_.cancel();
  if (parser_->keep_alive()) {
    backend_->keep_idle(std::move(socket_));
  } else {
    ErrorCode ignored;
    socket_.close(ignored);
  }
  listener->on_end();
}

// An idle connection may have been closed by the backend just when it was reused. That is no
// failure of the backend, which most likely has not read the request, so the request is sent again.
// After any other error, and after a timeout, the backend may be at work on the request.
void BackendCall::on_broken(const ErrorCode& ec) {
  const bool is_closed = is_closed_by_peer(ec);
  if (!is_reused_ || has_bytes_ || !is_closed)
    return fail(is_closed ? "it closed the connection" : ec.message());
  ErrorCode ignored;
  socket_.close(ignored);
  parser_.reset();
  connect();
}

void BackendCall::fail(const std::string& why) {
  const std::shared_ptr<BackendListener> listener = std::move(listener_);
  cancel();
  if (listener != nullptr) listener->on_failure(why);
}

void BackendCall::resume() {
  if (parser_ && has_bytes_) read();
}

void BackendCall::cancel() {
  ErrorCode ignored;
  listener_ = nullptr;
  timer_.cancel();
  socket_.close(ignored);
}

}  // namespace quire::gateway
