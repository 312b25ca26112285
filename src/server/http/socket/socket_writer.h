// SocketWriter writes a connection's text. New text waits in one buffer while another buffer is
// being sent to the client.
#pragma once

#include <boost/asio/buffer.hpp>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "server/tls/client_stream.h"

namespace quire::server {

class SocketWriter {
 public:
  using Clock = std::chrono::steady_clock;

  // `stream` must outlive this object.
  explicit SocketWriter(ClientStream& stream) : stream_(stream) {}

  void append(std::string_view text) { out_ += text; }
  size_t num_bytes() const { return out_.size() + in_flight_.size(); }
  bool is_writing() const { return is_writing_; }
  // Returns the time since the running write began.
  Clock::duration writing_for() const { return Clock::now() - write_start_; }
  // Returns whether write() would begin a write.
  bool can_write() const { return !is_writing_ && num_bytes() > 0; }

  // Begins a write. `done(ec)` is called when the socket has taken some of the text.
  template <typename Done>
  void write(Done done) {
    if (in_flight_.empty()) {
      in_flight_.swap(out_);
      num_written_ = 0;
    }
    is_writing_ = true;
    write_start_ = Clock::now();
    stream_.async_write_some(
        boost::asio::buffer(in_flight_.data() + num_written_, in_flight_.size() - num_written_),
        [this, done = std::move(done)](const ClientStream::ErrorCode& ec, size_t num_bytes) {
          is_writing_ = false;
          if (!ec) consume(num_bytes);
          done(ec);
        });
  }
  // Drops the text that has not been sent.
  void drop() { out_ = {}; }

 private:
  void consume(size_t num_bytes) {
    num_written_ += num_bytes;
    if (num_written_ < in_flight_.size()) return;
    in_flight_.clear();
    // After a slow phase, a large buffer must not be kept for the rest of a long stream.
    if (in_flight_.capacity() > 64 * 1024) in_flight_.shrink_to_fit();
  }

  ClientStream& stream_;
  std::string out_;  // the text after in_flight_
  std::string in_flight_;
  size_t num_written_ = 0;  // bytes of in_flight_
  bool is_writing_ = false;
  Clock::time_point write_start_;  // when the running async write began
};

}  // namespace quire::server
