// A Backend is one server behind the gateway: its address, its health, its running requests, and
// idle connections to it. It is used on the gateway's thread only.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire::gateway {

using Tcp = boost::asio::ip::tcp;

struct BackendAddress {
  std::string host;  // a name or an address, without brackets
  uint16_t port = 80;

  std::string authority() const;  // host:port, as the Host header has it
  friend bool operator==(const BackendAddress&, const BackendAddress&) = default;
};
// Reads "http://host:port", "host:port" or "[::1]:8000"; a trailing slash is dropped.
// kInvalidArgument: anything else, such as https, a path, or no port.
Result<BackendAddress> parse_backend(std::string_view url);

// These counts begin with the gateway and are never reset.
struct BackendCounts {
  uint64_t num_requests = 0;   // sent to it
  uint64_t num_failures = 0;   // requests whose answers did not come to their end
  uint64_t num_ejections = 0;  // times that it stopped being healthy
};

class Backend {
 public:
  Backend(int32_t id, BackendAddress address)
      : id_(id),
        address_(std::move(address)),
        name_(static_cast<uint32_t>(std::hash<std::string>()(address_.authority()))) {}

  int32_t id() const { return id_; }  // no other backend ever gets this id
  const BackendAddress& address() const { return address_; }
  // Returns the address as a number, which is the same in every gateway.
  uint32_t name() const { return name_; }

  bool is_healthy() const { return is_healthy_; }
  void set_healthy(bool is_healthy) {
    if (is_healthy_ && !is_healthy) ++counts.num_ejections;
    is_healthy_ = is_healthy;
  }

  // Returns an idle connection that is still open, or a closed socket when there is none.
  Tcp::socket take_idle(const boost::asio::any_io_executor& executor);
  void keep_idle(Tcp::socket socket);
  void drop_idle() { idle_.clear(); }

  std::vector<Tcp::endpoint> endpoints;  // addresses to connect to; empty: not known yet
  bool is_removed = false;               // it finishes its requests and gets no new ones
  int32_t num_open = 0;                  // requests that have no complete answer yet
  int64_t num_open_tokens = 0;           // about how many tokens these have
  BackendCounts counts;

 private:
  using Clock = std::chrono::steady_clock;
  struct Idle {
    Tcp::socket socket;
    Clock::time_point since;
  };

  const int32_t id_;
  const BackendAddress address_;
  const uint32_t name_;
  bool is_healthy_ = false;
  std::vector<Idle> idle_;
};

}  // namespace quire::gateway
