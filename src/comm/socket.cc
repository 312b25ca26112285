#include "comm/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "base/clock.h"

namespace quire {
namespace {

constexpr uint32_t kMagic = 0x51524b31;  // "QRK1", which includes the version

struct FrameHeader {
  uint32_t magic = kMagic;
  uint32_t kind = 0;
  uint64_t length = 0;
  uint64_t sum = 0;
};

// FNV-1a over 8 bytes at a time. It detects a wrong peer or a torn stream, not an attacker.
uint64_t sum_of(std::span<const std::byte> bytes) {
  constexpr uint64_t kPrime = 0x100000001b3;
  uint64_t sum = 0xcbf29ce484222325;
  for (size_t i = 0; i < bytes.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min<size_t>(8, bytes.size() - i));
    sum = (sum ^ word) * kPrime;
    sum ^= sum >> 29;
  }
  return sum;
}

int64_t now_us() { return SteadyClock().now_us(); }

// Returns the milliseconds until the deadline, for poll().
int left_ms(int64_t deadline_us) {
  if (deadline_us == 0) return -1;
  return static_cast<int>(std::clamp<int64_t>((deadline_us - now_us() + 999) / 1000, 0, 1 << 30));
}

std::string last_error() { return std::strerror(errno); }  // NOLINT: one thread per socket

// Sets keepalive so that a peer that does not answer for about four seconds counts as gone.
void set_options(int fd) {
  const auto set = [fd](int level, int name, int value) {
    ::setsockopt(fd, level, name, &value, sizeof(value));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 4000);
}

Status wait_for(const Socket& socket, short events, int64_t deadline_us) {
  pollfd waited{.fd = socket.fd(), .events = events, .revents = 0};
  int ready = 0;
  do {
    ready = ::poll(&waited, 1, left_ms(deadline_us));
  } while (ready < 0 && errno == EINTR);
  if (ready > 0) return {};
  if (ready < 0) return unavailable("poll: {}", last_error());
  return {StatusCode::kDeadlineExceeded, "the other rank did not answer in time"};
}

// Returns whether accept4() may succeed when it is called again: the client has vanished (Linux then
// reports the error of its connection, see accept(2)), or a signal came.
bool may_accept_again(int error) {
  switch (error) {
    case EAGAIN:
    case EINTR:
    case ECONNABORTED:
    case EPROTO:
    case ENOPROTOOPT:
    case EOPNOTSUPP:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENONET:
    case ETIMEDOUT:
      return true;
    default:
      return false;
  }
}

Result<Socket> try_connect(const addrinfo& address, int64_t deadline_us) {
  Socket socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return unavailable("socket: {}", last_error());
  if (::connect(socket.fd(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return unavailable("{}", last_error());
    const int64_t try_until = std::min(deadline_us, now_us() + 1'000'000);
    QUIRE_RETURN_IF_ERROR(wait_for(socket, POLLOUT, try_until));
    int error = 0;
    socklen_t size = sizeof(error);
    ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return unavailable("{}", std::strerror(error));  // NOLINT
  }
  set_options(socket.fd());
  return socket;
}

}  // namespace

void Socket::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

void Socket::shut_down() {
  if (fd_ >= 0) ::shutdown(fd_, SHUT_RDWR);
}

int64_t deadline_in_ms(int64_t ms) { return now_us() + ms * 1000; }

Result<Socket> listen_on(uint16_t port) {
  // accept4() must not block, since the client for which poll() returned may have vanished.
  constexpr int kType = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
  Socket socket(::socket(AF_INET6, kType, 0));
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_addr = in6addr_any;
  any.sin6_port = htons(port);
  sockaddr_in any4{};
  any4.sin_family = AF_INET;
  any4.sin_port = htons(port);
  const auto* address = reinterpret_cast<const sockaddr*>(&any);
  socklen_t size = sizeof(any);
  if (!socket.is_open()) {  // the machine has no IPv6
    socket = Socket(::socket(AF_INET, kType, 0));
    address = reinterpret_cast<const sockaddr*>(&any4);
    size = sizeof(any4);
  } else {
    const int both = 0;
    ::setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof(both));
  }
  const int reuse = 1;
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse));
  if (::bind(socket.fd(), address, size) != 0 || ::listen(socket.fd(), 128) != 0)
    return unavailable("port {}: {}", port, last_error());
  return socket;
}

uint16_t port_of(const Socket& listener) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  ::getsockname(listener.fd(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

Result<Socket> accept_one(const Socket& listener, int64_t deadline_us) {
  for (;;) {
    QUIRE_RETURN_IF_ERROR(wait_for(listener, POLLIN, deadline_us));
    Socket socket(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.is_open()) {
      set_options(socket.fd());
      return socket;
    }
    if (!may_accept_again(errno)) return unavailable("accept: {}", last_error());
  }
}

Result<Socket> connect_to(const std::string& host, uint16_t port, int64_t deadline_us) {
  std::string reason = "no address";
  do {
    addrinfo wanted{};
    wanted.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found);
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(
        error == 0 ? found : nullptr, &::freeaddrinfo);
    if (error != 0) reason = ::gai_strerror(error);
    for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
      Result<Socket> socket = try_connect(*at, deadline_us);
      if (socket.ok()) return socket;
      reason = socket.status().message();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (now_us() < deadline_us);
  return unavailable("{}:{}: {}", host, port, reason);
}

std::string peer_address(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  char host[NI_MAXHOST] = "";
  if (::getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host, sizeof(host), nullptr, 0,
                NI_NUMERICHOST);
  return host;
}

Status send_all(const Socket& socket, std::span<const std::byte> bytes, int64_t deadline_us) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<size_t>(sent));
    } else if (errno == EAGAIN || errno == EINTR) {
      QUIRE_RETURN_IF_ERROR(wait_for(socket, POLLOUT, deadline_us));
    } else {
      return unavailable("{}", last_error());
    }
  }
  return {};
}

Status receive_all(const Socket& socket, std::span<std::byte> bytes, int64_t deadline_us) {
  while (!bytes.empty()) {
    const ssize_t received = ::recv(socket.fd(), bytes.data(), bytes.size(), 0);
    if (received > 0) {
      bytes = bytes.subspan(static_cast<size_t>(received));
    } else if (received == 0) {
      return unavailable("the other rank has closed the connection");
    } else if (errno == EAGAIN || errno == EINTR) {
      QUIRE_RETURN_IF_ERROR(wait_for(socket, POLLIN, deadline_us));
    } else {
      return unavailable("{}", last_error());
    }
  }
  return {};
}

OutgoingFrame::OutgoingFrame(uint32_t kind, std::span<const std::byte> payload)
    : payload_(payload) {
  const uint64_t sum = check().ok() ? sum_of(payload) : 0;  // a longer payload is not sent
  const FrameHeader header{.kind = kind, .length = payload.size(), .sum = sum};
  static_assert(sizeof(header) == kHeaderBytes);
  std::memcpy(header_, &header, kHeaderBytes);
}

Status OutgoingFrame::check() const {
  if (std::ssize(payload_) <= kMaxFrameBytes) return {};
  return invalid_argument("a frame for ranks: expected a payload of at most {} bytes, got {}",
                          kMaxFrameBytes, payload_.size());
}

// Usually one system call sends everything; the rest follows in more calls.
Status OutgoingFrame::send(const Socket& socket, int64_t deadline_us) const {
  QUIRE_RETURN_IF_ERROR(check());
  iovec parts[2] = {
      {.iov_base = const_cast<std::byte*>(header_), .iov_len = kHeaderBytes},
      {.iov_base = const_cast<std::byte*>(payload_.data()), .iov_len = payload_.size()}};
  const msghdr message{.msg_name = nullptr,
                       .msg_namelen = 0,
                       .msg_iov = parts,
                       .msg_iovlen = 2,
                       .msg_control = nullptr,
                       .msg_controllen = 0,
                       .msg_flags = 0};
  const ssize_t sent = ::sendmsg(socket.fd(), &message, MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN && errno != EINTR) return unavailable("{}", last_error());
  const auto done = static_cast<size_t>(std::max<ssize_t>(sent, 0));
  const size_t of_header = std::min(done, kHeaderBytes);
  QUIRE_RETURN_IF_ERROR(send_all(socket, std::span(header_).subspan(of_header), deadline_us));
  return send_all(socket, payload_.subspan(done - of_header), deadline_us);
}

Status send_frame(const Socket& socket, uint32_t kind, std::span<const std::byte> payload,
                  int64_t deadline_us) {
  return OutgoingFrame(kind, payload).send(socket, deadline_us);
}

bool has_closed(const Socket& socket) {
  std::byte next{};
  return ::recv(socket.fd(), &next, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

Status receive_frame(const Socket& socket, Frame& frame, int64_t deadline_us, int64_t max_bytes) {
  const auto read = [&](std::span<std::byte> bytes) {
    return receive_all(socket, bytes, deadline_us);
  };
  return receive_frame(read, frame, max_bytes);
}

Status receive_frame(const std::function<Status(std::span<std::byte>)>& read, Frame& frame,
                     int64_t max_bytes) {
  FrameHeader header;
  QUIRE_RETURN_IF_ERROR(read(std::as_writable_bytes(std::span(&header, 1))));
  if (header.magic != kMagic) {
    return data_loss(
        "a frame of ranks: expected the mark {:08x}, got {:08x}; is the other end the same "
        "version of this program?",
        kMagic, header.magic);
  }
  if (header.length > static_cast<uint64_t>(max_bytes)) {
    return data_loss("a frame of ranks: expected at most {} bytes, got {}", max_bytes,
                     header.length);
  }
  frame.kind = header.kind;
  frame.payload.resize(header.length);
  QUIRE_RETURN_IF_ERROR(read(frame.payload));
  if (sum_of(frame.payload) != header.sum)
    return data_loss("a frame of ranks: its bytes are not those that were sent");
  return {};
}

}  // namespace quire
