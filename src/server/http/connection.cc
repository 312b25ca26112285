#include "server/http/connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <ctime>
#include <exception>

#include "base/log.h"
#include "server/http/api_error.h"

namespace quire::server {
namespace {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;

// When an answer is sent before its request has been read, the rest of the request is read and
// dropped, so that the client sees the answer and not a reset.
constexpr uint64_t kMaxDiscardBytes = 64ull * 1024 * 1024;
constexpr int64_t kLingerMs = 5'000;
constexpr int64_t kNoDeadlineMs = 365ll * 24 * 3600 * 1000;

HttpResponse reader_error(int status, std::string_view message) {
  ApiError error = api_error(status, std::string(message));
  if (status == 413) {
    error.message = "the request body is larger than this server accepts";
  }
  return error_response(error);
}

std::string refusal_of_plain_http() {
  const HttpResponse response =
      error_response(api_error(400, "this port is encrypted: expected https, got http"));
  return response_head(response, {11, false, response.body.size(), http_date(std::time(nullptr))}) +
         response.body;
}

}  // namespace

Connection::Connection(Socket socket, TlsContext tls, std::shared_ptr<ConnectionShared> shared)
    : stream_(std::move(socket), std::move(tls)),
      deadline_(stream_.get_executor(), [this] { on_deadline(); }),
      shared_(std::move(shared)),
      reader_(shared_->limits),
      writer_(stream_),
      body_charge_(shared_->body_bytes) {}

Connection::~Connection() {
  const std::lock_guard lock(shared_->mutex);
  shared_->open.erase(this);
}

void Connection::start() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] {
    if (self->phase_ == Phase::kClosed) return;
    if (self->shared_->stopped.load()) {
      self->close();
      return;
    }
    self->deadline_.set(self->shared_->limits.idle_timeout_ms, self);
    if (!self->stream_.is_encrypted()) return self->read();
    self->stream_.async_handshake(refusal_of_plain_http(), [self](const ErrorCode& ec) {
      if (self->phase_ == Phase::kClosed) return;
      if (ec) {
        self->close();
      } else {
        self->read();
      }
    });
  });
}

void Connection::stop() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] { self->client_left(); });
}

// --- Reading ---

void Connection::read() {
  if (reading_ || saw_eof_ || phase_ == Phase::kClosed) return;
  if (phase_ == Phase::kHandling && reader_.buffered_bytes() >= shared_->limits.pipelined_bytes) {
    return;  // the client may only send so much ahead; a disconnect then shows when we write
  }
  reading_ = true;
  stream_.async_read_some(asio::buffer(read_buffer_),
                          [self = shared_from_this()](const ErrorCode& ec, size_t n) {
                            self->contain([&] { self->on_read(ec, n); });
                          });
}

void Connection::on_read(const ErrorCode& ec, size_t num_bytes) {
  reading_ = false;
  if (phase_ == Phase::kClosed) return;
  if (ec) {
    saw_eof_ = true;
    // A client may close its sending side while it receives the rest of the answer. A client that
    // closes it before the whole answer is ready has left.
    if (phase_ == Phase::kHandling && exchange_.answered) return;
    client_left();
    return;
  }
  if (phase_ == Phase::kLingering) {
    discarded_bytes_ += num_bytes;
    if (discarded_bytes_ > kMaxDiscardBytes) {
      close();
    } else {
      read();
    }
    return;
  }
  const bool fresh = !reader_.started();
  reader_.append({read_buffer_.data(), num_bytes});
  if (phase_ == Phase::kHandling) {
    read();
    return;
  }
  if (fresh) deadline_.set(shared_->limits.read_timeout_ms, shared_from_this());
  process();
}

void Connection::process() {
  while (phase_ == Phase::kReading) {
    const HttpRequestReader::State state = reader_.advance();
    body_charge_.grow_to(reader_.held_bytes());
    if (body_charge_.num_bytes() > shared_->limits.inline_body_bytes &&
        shared_->body_bytes.load(std::memory_order_relaxed) > shared_->limits.total_body_bytes) {
      ApiError error =
          api_error(429, "the server holds as many request bodies as it may; try again");
      error.retry_after_s = 1;
      answer_early(error_response(error));
      return;
    }
    switch (state) {
      case HttpRequestReader::State::kNeedMore:
        read();
        return;
      case HttpRequestReader::State::kError:
        begin_exchange(reader_.head());
        keep_alive_ = false;
        send(reader_error(reader_.error_status(), reader_.error_message()));
        return;
      case HttpRequestReader::State::kHeader:
        if (auto early = shared_->handler->on_head(reader_.head())) {
          answer_early(std::move(*early));
          return;
        }
        if (reader_.expects_continue() && reader_.buffered_bytes() == 0) {
          writer_.append("HTTP/1.1 100 Continue\r\n\r\n");
          flush();
        }
        break;
      case HttpRequestReader::State::kComplete: {
        HttpRequest request = reader_.take();
        begin_exchange(request);
        shared_->handler->on_request(std::move(request), shared_from_this());
        read();  // notices when the client leaves
        return;
      }
    }
  }
}

void Connection::answer_early(HttpResponse response) {
  begin_exchange(reader_.head());
  // The connection may only be kept when the whole request has arrived, because otherwise the rest
  // of the request would look like a new one.
  if (reader_.advance() == HttpRequestReader::State::kComplete) {
    (void)reader_.take();
  } else {
    keep_alive_ = false;
  }
  send(std::move(response));
}

void Connection::begin_exchange(const HttpRequest& head) {
  phase_ = Phase::kHandling;
  exchange_ = {};
  exchange_.head.method = head.method;
  exchange_.head.path = head.path;
  exchange_.head.version = head.version;
  keep_alive_ = head.keep_alive && !shared_->closing.load(std::memory_order_relaxed);
  deadline_.set(kNoDeadlineMs, shared_from_this());
}

// --- Writing ---

void Connection::send(HttpResponse response) {
  if (phase_ != Phase::kHandling || exchange_.answered) return;
  exchange_.status = response.status;
  if (shared_->closing.load(std::memory_order_relaxed)) keep_alive_ = false;
  writer_.append(response_head(response, {exchange_.head.version, keep_alive_, response.body.size(),
                                          http_date(std::time(nullptr))}));
  if (exchange_.head.method != "HEAD") writer_.append(response.body);
  finish_answer();
}

void Connection::begin_stream(HttpResponse head) {
  if (phase_ != Phase::kHandling || exchange_.answered) return;
  exchange_.status = head.status;
  exchange_.streaming = true;
  exchange_.chunked = exchange_.head.version == 11;
  if (!exchange_.chunked || shared_->closing.load(std::memory_order_relaxed)) keep_alive_ = false;
  writer_.append(response_head(
      head, {exchange_.head.version, keep_alive_, std::nullopt, http_date(std::time(nullptr))}));
  flush();
}

void Connection::write(std::string_view data) {
  if (phase_ != Phase::kHandling || !exchange_.streaming || exchange_.answered || data.empty())
    return;
  if (exchange_.chunked) {
    fmt::memory_buffer size;
    fmt::format_to(std::back_inserter(size), "{:x}\r\n", data.size());
    writer_.append({size.data(), size.size()});
  }
  writer_.append(data);
  if (exchange_.chunked) writer_.append("\r\n");
  flush();
}

void Connection::end_stream() {
  if (phase_ != Phase::kHandling || !exchange_.streaming || exchange_.answered) return;
  if (exchange_.chunked) writer_.append("0\r\n\r\n");
  finish_answer();
}

// The answer is counted before it is sent, so that a client that has its answer finds it in
// /metrics.
void Connection::finish_answer() {
  exchange_.answered = true;
  shared_->handler->on_done(exchange_.head, exchange_.status, exchange_.seconds());
  flush();
}

bool Connection::wants_more() const {
  const bool room = writer_.num_bytes() < shared_->limits.write_buffer_bytes;
  if (!room) const_cast<Connection*>(this)->exchange_.was_full = true;
  return room && phase_ == Phase::kHandling;
}

void Connection::flush() {
  if (phase_ == Phase::kClosed || !writer_.can_write()) return;
  deadline_.set(std::min(shared_->limits.contended_stall_ms, shared_->limits.write_stall_ms),
                shared_from_this());
  writer_.write([self = shared_from_this()](const ErrorCode& ec) {
    self->contain([&] { self->on_written(ec); });
  });
}

void Connection::on_written(const ErrorCode& ec) {
  if (phase_ == Phase::kClosed) return;
  if (ec) {
    client_left();
    return;
  }
  if (writer_.num_bytes() > 0) {
    flush();
  } else if (phase_ == Phase::kHandling && exchange_.answered) {
    finish_exchange();
    return;
  } else {
    deadline_.set(phase_ == Phase::kHandling ? kNoDeadlineMs : shared_->limits.read_timeout_ms,
                  shared_from_this());
  }
  if (exchange_.was_full && call_ && wants_more()) {
    exchange_.was_full = false;
    const std::shared_ptr<OngoingCall> call = call_;
    call->on_writable();
  }
}

void Connection::finish_exchange() {
  call_.reset();
  body_charge_.release();
  if (saw_eof_) {
    close();
  } else if (!keep_alive_) {
    phase_ = Phase::kLingering;
    stream_.end_writing(shared_from_this());
    deadline_.set(kLingerMs, shared_from_this());
    read();
  } else {
    phase_ = Phase::kReading;
    deadline_.set(
        reader_.started() ? shared_->limits.read_timeout_ms : shared_->limits.idle_timeout_ms,
        shared_from_this());
    if (!reading_ || reader_.started()) process();
  }
}

// --- Endings ---

void Connection::attach(std::shared_ptr<OngoingCall> call) {
  if (phase_ == Phase::kHandling) {
    call_ = std::move(call);
  } else {
    call->on_disconnect();
  }
}

std::function<void(std::function<void()>)> Connection::poster() {
  return [io = shared_->io, executor = stream_.get_executor(),
          weak = weak_from_this()](std::function<void()> work) {
    asio::post(executor, [weak, work = std::move(work)] {
      if (const auto self = weak.lock()) self->contain(work);
    });
  };
}

// When the answer has not begun, the client gets an error instead.
void Connection::cut(const std::string& why) {
  const int64_t now_s =
      std::chrono::duration_cast<std::chrono::seconds>(Clock::now().time_since_epoch()).count();
  try {
    if (shared_->last_failure_s.exchange(now_s) != now_s) {
      log_error("{} {}: {}", exchange_.head.method, exchange_.head.path, why);
    }
    if (phase_ != Phase::kHandling || exchange_.answered || exchange_.streaming) {
      client_left();
      return;
    }
    if (const std::shared_ptr<OngoingCall> call = std::move(call_)) call->on_disconnect();
    keep_alive_ = false;
    send(error_response(
        api_error(500, "the server failed at this request, perhaps short of memory")));
  } catch (const std::exception&) {
    client_left();  // there is no memory even for the error
  }
}

void Connection::client_left() {
  if (phase_ == Phase::kClosed) return;
  const std::shared_ptr<OngoingCall> call = std::move(call_);
  if (phase_ == Phase::kHandling && !exchange_.answered)
    shared_->handler->on_done(exchange_.head, 499, exchange_.seconds());
  close();
  if (call) call->on_disconnect();
}

void Connection::close() {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  body_charge_.release();
  deadline_.cancel();
  stream_.close();
  writer_.drop();
}

// --- Time ---

void Connection::on_deadline() {
  if (phase_ == Phase::kClosed) return;
  // A client that reads nothing has write_stall_ms. A running stream has less time while other
  // requests wait for its place in the engine.
  const bool runs = exchange_.streaming && !exchange_.answered;
  if (writer_.is_writing() &&
      writer_.writing_for() < std::chrono::milliseconds(shared_->limits.write_stall_ms) &&
      (!runs || !shared_->handler->work_waits())) {
    deadline_.set(shared_->limits.contended_stall_ms, shared_from_this());  // and checks again
    return;
  }
  if (phase_ == Phase::kReading && reader_.started()) {
    begin_exchange(reader_.head());
    keep_alive_ = false;
    send(error_response(api_error(408, "the request did not arrive in time")));
    return;
  }
  client_left();
}

}  // namespace quire::server
