#include "gateway/backend.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <charconv>
#include <utility>

namespace quire::gateway {
namespace {

constexpr size_t kMostIdle = 256;
// Servers keep silent connections longer than this.
constexpr std::chrono::seconds kIdleTime{20};

// Returns whether the other side still has the connection open and has sent nothing on it.
bool is_usable(Tcp::socket& socket) {
  char byte = 0;
  const ssize_t n = ::recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

bool is_host_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '-' || c == '_';
}

}  // namespace

std::string BackendAddress::authority() const {
  return host.find(':') == host.npos ? fmt::format("{}:{}", host, port)
                                     : fmt::format("[{}]:{}", host, port);
}

Result<BackendAddress> parse_backend(std::string_view url) {
  const auto refusal = [&] {
    return invalid_argument("backend: expected http://HOST:PORT, got {}", url.substr(0, 200));
  };
  std::string_view rest = url;
  if (rest.starts_with("http://")) rest.remove_prefix(7);
  if (rest.ends_with('/')) rest.remove_suffix(1);
  BackendAddress address;
  if (rest.starts_with('[')) {
    const size_t end = rest.find(']');
    if (end == rest.npos || !rest.substr(end + 1).starts_with(':')) return refusal();
    address.host = rest.substr(1, end - 1);
    boost::system::error_code ec;
    (void)boost::asio::ip::make_address_v6(address.host, ec);
    if (ec) return refusal();
    rest.remove_prefix(end + 2);
  } else {
    const size_t colon = rest.find(':');
    if (colon == rest.npos || colon == 0 || colon > 255) return refusal();
    address.host = rest.substr(0, colon);
    for (const char c : address.host) {
      if (!is_host_char(c)) return refusal();
    }
    rest.remove_prefix(colon + 1);
  }
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), address.port);
  if (error != std::errc() || end != rest.data() + rest.size() || address.port == 0)
    return refusal();
  return address;
}

// The newest connection is used first, so that connections that a quiet time does not need become
// old and are closed.
Tcp::socket Backend::take_idle(const boost::asio::any_io_executor& executor) {
  const Clock::time_point now = Clock::now();
  while (!idle_.empty()) {
    Idle idle = std::move(idle_.back());
    idle_.pop_back();
    if (now - idle.since < kIdleTime && is_usable(idle.socket)) return std::move(idle.socket);
  }
  return Tcp::socket(executor);
}

void Backend::keep_idle(Tcp::socket socket) {
  if (idle_.size() >= kMostIdle) idle_.erase(idle_.begin());
  idle_.push_back({std::move(socket), Clock::now()});
}

}  // namespace quire::gateway
