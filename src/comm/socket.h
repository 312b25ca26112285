// TCP connections between ranks. Every call has a deadline. Keepalive finds out within seconds that
// a peer's machine or link is gone, also for a rank that only waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace quire {

// Owns a file descriptor. One thread may use it.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void close();
  // Ends the connection in both directions, which wakes both ends. Any thread may call it.
  void shut_down();

 private:
  int fd_ = -1;
};

// Listens on every address of this machine; port 0 takes any port that is free. kUnavailable: the
// port is taken.
Result<Socket> listen_on(uint16_t port);
uint16_t port_of(const Socket& listener);
// Waits for a connection. kDeadlineExceeded: none came. kUnavailable: the system cannot take one,
// for example because this process has too many open files.
Result<Socket> accept_one(const Socket& listener, int64_t deadline_us);
// Connects to `host`, and tries again until the deadline, because the other end may start later.
// kUnavailable: no attempt succeeded; the message has the last reason.
Result<Socket> connect_to(const std::string& host, uint16_t port, int64_t deadline_us);
// Returns the address of the other end, in digits.
std::string peer_address(const Socket& socket);

// Sends all bytes. kUnavailable: the other end is gone. kDeadlineExceeded: it does not take them in
// time. A `deadline_us` of 0 waits forever.
Status send_all(const Socket& socket, std::span<const std::byte> bytes, int64_t deadline_us);
Status receive_all(const Socket& socket, std::span<std::byte> bytes, int64_t deadline_us);

// Returns, without waiting, whether the other end has closed the connection and everything that it
// sent has been received.
bool has_closed(const Socket& socket);

// A message between ranks. It is sent with its kind, its length and a checksum.
struct Frame {
  uint32_t kind = 0;
  std::vector<std::byte> payload;
};
inline constexpr int64_t kMaxFrameBytes = int64_t{1} << 30;
// A frame that may be sent to several ranks; its checksum is computed once. Borrows the payload.
class OutgoingFrame {
 public:
  OutgoingFrame(uint32_t kind, std::span<const std::byte> payload);
  // kInvalidArgument: the payload is longer than kMaxFrameBytes, so no rank would take it.
  Status check() const;
  // Returns the errors of check() and send_all().
  Status send(const Socket& socket, int64_t deadline_us) const;
  // Returns the bytes that precede the payload, for senders that do not use a socket.
  std::span<const std::byte> header() const { return header_; }

 private:
  static constexpr size_t kHeaderBytes = 24;
  std::byte header_[kHeaderBytes];
  std::span<const std::byte> payload_;
};
Status send_frame(const Socket& socket, uint32_t kind, std::span<const std::byte> payload,
                  int64_t deadline_us);
// Receives a frame. kDataLoss: the bytes are not a frame of this version, it is longer than
// `max_bytes`, or its checksum does not match.
Status receive_frame(const Socket& socket, Frame& frame, int64_t deadline_us,
                     int64_t max_bytes = kMaxFrameBytes);
// Receives a frame through `read`, which fills the given bytes and is called several times.
Status receive_frame(const std::function<Status(std::span<std::byte>)>& read, Frame& frame,
                     int64_t max_bytes = kMaxFrameBytes);

// Returns the time `ms` milliseconds from now, in microseconds of the steady clock.
int64_t deadline_in_ms(int64_t ms);

}  // namespace quire
