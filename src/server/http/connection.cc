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

// After an answer that came before its request was read, the rest is read and dropped, so that the
// client sees the answer and not a reset.
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
      timer_(stream_.get_executor()),
      shared_(std::move(shared)),
      reader_(shared_->limits) {}

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
    self->set_deadline(self->shared_->limits.idle_timeout_ms);
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

// --- reading
// -------------------------------------------------------------------------------------------------------

void Connection::read() {
  if (reading_ || saw_eof_ || phase_ == Phase::kClosed) return;
  if (phase_ == Phase::kHandling && reader_.buffered_bytes() >= shared_->limits.pipelined_bytes) {
    return;  // the client may send ahead only so much; a disconnect then shows when we write
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
    // A client that has our whole answer coming may close its sending side; one that waits for more
    // has left.
    if (phase_ == Phase::kHandling && answered_) return;
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
  if (fresh) set_deadline(shared_->limits.read_timeout_ms);
  process();
}

void Connection::charge_body() {
  const uint64_t now = reader_.held_bytes();
  if (now > charged_body_bytes_) {
    shared_->body_bytes.fetch_add(now - charged_body_bytes_, std::memory_order_relaxed);
    charged_body_bytes_ = now;
  }
}

void Connection::process() {
  while (phase_ == Phase::kReading) {
    const HttpRequestReader::State state = reader_.advance();
    charge_body();
    if (charged_body_bytes_ > shared_->limits.inline_body_bytes &&
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
          out_ += "HTTP/1.1 100 Continue\r\n\r\n";
          flush();
        }
        break;
      case HttpRequestReader::State::kComplete: {
        HttpRequest request = reader_.take();
        begin_exchange(request);
        shared_->handler->on_request(std::move(request), shared_from_this());
        read();  // watch for the client leaving
        return;
      }
    }
  }
}

void Connection::answer_early(HttpResponse response) {
  begin_exchange(reader_.head());
  // With the whole request at hand the connection may live on; otherwise the rest cannot be told
  // from a new request.
  if (reader_.advance() == HttpRequestReader::State::kComplete) {
    (void)reader_.take();
  } else {
    keep_alive_ = false;
  }
  send(std::move(response));
}

void Connection::begin_exchange(const HttpRequest& head) {
  phase_ = Phase::kHandling;
  head_ = HttpRequest{};
  head_.method = head.method;
  head_.path = head.path;
  head_.version = head.version;
  keep_alive_ = head.keep_alive && !shared_->closing.load(std::memory_order_relaxed);
  answered_ = streaming_ = chunked_ = was_full_ = false;
  status_ = 0;
  exchange_start_ = Clock::now();
  set_deadline(kNoDeadlineMs);
}

// --- writing
// -------------------------------------------------------------------------------------------------------

void Connection::send(HttpResponse response) {
  if (phase_ != Phase::kHandling || answered_) return;
  status_ = response.status;
  if (shared_->closing.load(std::memory_order_relaxed)) keep_alive_ = false;
  out_ += response_head(
      response, {head_.version, keep_alive_, response.body.size(), http_date(std::time(nullptr))});
  if (head_.method != "HEAD") out_ += response.body;
  finish_answer();
}

void Connection::begin_stream(HttpResponse head) {
  if (phase_ != Phase::kHandling || answered_) return;
  status_ = head.status;
  streaming_ = true;
  chunked_ = head_.version == 11;
  if (!chunked_ || shared_->closing.load(std::memory_order_relaxed)) keep_alive_ = false;
  out_ += response_head(head,
                        {head_.version, keep_alive_, std::nullopt, http_date(std::time(nullptr))});
  flush();
}

void Connection::write(std::string_view data) {
  if (phase_ != Phase::kHandling || !streaming_ || answered_ || data.empty()) return;
  if (chunked_) {
    fmt::format_to(std::back_inserter(out_), "{:x}\r\n", data.size());
    out_ += data;
    out_ += "\r\n";
  } else {
    out_ += data;
  }
  flush();
}

void Connection::end_stream() {
  if (phase_ != Phase::kHandling || !streaming_ || answered_) return;
  if (chunked_) out_ += "0\r\n\r\n";
  finish_answer();
}

// On record before it is sent: a client that holds its answer finds it counted in /metrics.
void Connection::finish_answer() {
  answered_ = true;
  record_done(status_);
  flush();
}

bool Connection::wants_more() const {
  const bool room = out_.size() + in_flight_.size() < shared_->limits.write_buffer_bytes;
  if (!room) const_cast<Connection*>(this)->was_full_ = true;
  return room && phase_ == Phase::kHandling;
}

void Connection::flush() {
  if (writing_ || phase_ == Phase::kClosed) return;
  if (in_flight_.empty()) {
    if (out_.empty()) return;
    in_flight_.swap(out_);
    in_flight_done_ = 0;
  }
  writing_ = true;
  write_start_ = Clock::now();
  set_deadline(std::min(shared_->limits.contended_stall_ms, shared_->limits.write_stall_ms));
  stream_.async_write_some(
      asio::buffer(in_flight_.data() + in_flight_done_, in_flight_.size() - in_flight_done_),
      [self = shared_from_this()](const ErrorCode& ec, size_t n) {
        self->contain([&] { self->on_written(ec, n); });
      });
}

void Connection::on_written(const ErrorCode& ec, size_t num_bytes) {
  writing_ = false;
  if (phase_ == Phase::kClosed) return;
  if (ec) {
    client_left();
    return;
  }
  in_flight_done_ += num_bytes;
  if (in_flight_done_ == in_flight_.size()) {
    in_flight_.clear();
    // A slow spell must not leave a large buffer behind for the rest of a long stream.
    if (in_flight_.capacity() > 64 * 1024) in_flight_.shrink_to_fit();
  }
  if (!in_flight_.empty() || !out_.empty()) {
    flush();
  } else if (phase_ == Phase::kHandling && answered_) {
    finish_exchange();
    return;
  } else {
    set_deadline(phase_ == Phase::kHandling ? kNoDeadlineMs : shared_->limits.read_timeout_ms);
  }
  if (was_full_ && call_ && wants_more()) {
    was_full_ = false;
    const std::shared_ptr<OngoingCall> call = call_;
    call->on_writable();
  }
}

void Connection::record_done(int status) {
  const double seconds = std::chrono::duration<double>(Clock::now() - exchange_start_).count();
  shared_->handler->on_done(head_, status, seconds);
}

void Connection::finish_exchange() {
  call_.reset();
  shared_->body_bytes.fetch_sub(charged_body_bytes_, std::memory_order_relaxed);
  charged_body_bytes_ = 0;
  if (saw_eof_) {
    close();
  } else if (!keep_alive_) {
    linger();
  } else {
    phase_ = Phase::kReading;
    set_deadline(reader_.started() ? shared_->limits.read_timeout_ms
                                   : shared_->limits.idle_timeout_ms);
    if (!reading_ || reader_.started()) process();
  }
}

// --- endings
// -------------------------------------------------------------------------------------------------------

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

void Connection::fail(const char* why) {
  const int64_t now_s =
      std::chrono::duration_cast<std::chrono::seconds>(Clock::now().time_since_epoch()).count();
  try {
    if (shared_->last_failure_s.exchange(now_s) != now_s) {
      log_error("{} {}: {}", head_.method, head_.path, why);
    }
    if (phase_ != Phase::kHandling || answered_ || streaming_) {
      client_left();
      return;
    }
    if (const std::shared_ptr<OngoingCall> call = std::move(call_)) call->on_disconnect();
    keep_alive_ = false;
    send(error_response(
        api_error(500, "the server failed at this request, perhaps short of memory")));
  } catch (const std::exception&) {
    client_left();  // there is not even the memory to say so
  }
}

void Connection::client_left() {
  if (phase_ == Phase::kClosed) return;
  const std::shared_ptr<OngoingCall> call = std::move(call_);
  if (phase_ == Phase::kHandling && !answered_) record_done(499);
  close();
  if (call) call->on_disconnect();
}

void Connection::linger() {
  phase_ = Phase::kLingering;
  stream_.end_writing(shared_from_this());
  set_deadline(kLingerMs);
  read();
}

void Connection::close() {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  shared_->body_bytes.fetch_sub(charged_body_bytes_, std::memory_order_relaxed);
  charged_body_bytes_ = 0;
  timer_.cancel();
  stream_.close();
  out_ = {};
}

// --- time
// ----------------------------------------------------------------------------------------------------------

void Connection::set_deadline(int64_t ms) {
  deadline_ = Clock::now() + std::chrono::milliseconds(ms);
  // A timer that is out and fires earlier looks again; only an earlier deadline needs a new wait.
  if (timer_out_ && deadline_ >= timer_expiry_) return;
  wait_timer();
}

void Connection::wait_timer() {
  timer_expiry_ = deadline_;
  timer_out_ = true;
  timer_.expires_at(timer_expiry_);
  timer_.async_wait([self = shared_from_this()](const ErrorCode& ec) {
    if (!ec) self->on_timer();
  });
}

// A client that takes nothing has write_stall_ms. A stream that it leaves running has less while
// others wait for the place that it takes in the engine.
bool Connection::may_stall_on() const {
  if (!writing_) return false;
  const auto stalled = Clock::now() - write_start_;
  if (stalled >= std::chrono::milliseconds(shared_->limits.write_stall_ms)) return false;
  const bool runs = streaming_ && !answered_;
  return !runs || !shared_->handler->work_waits();
}

void Connection::on_timer() {
  timer_out_ = false;
  if (phase_ == Phase::kClosed) return;
  if (Clock::now() < deadline_) {
    wait_timer();
    return;
  }
  if (may_stall_on()) {
    set_deadline(shared_->limits.contended_stall_ms);  // and looks again
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
