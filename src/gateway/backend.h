// A Backend is one server behind the gateway: its address, whether it takes requests, what it has
// to do, and connections to it that wait for the next request. It is used on the gateway's thread
// alone.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>
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
// "http://host:port", "host:port", "[::1]:8000"; a trailing slash is dropped. kInvalidArgument for
// anything else: https, a path, no port.
Result<BackendAddress> parse_backend(std::string_view url);

// Counts since the gateway began, which are never reset.
struct BackendCounts {
  uint64_t num_requests = 0;   // sent to it
  uint64_t num_failures = 0;   // of them, those that it did not answer to their end
  uint64_t num_ejections = 0;  // times that it stopped being healthy
};

class Backend {
 public:
  Backend(int32_t id, BackendAddress address) : id_(id), address_(std::move(address)) {}

  int32_t id() const { return id_; }  // never given to another backend
  const BackendAddress& address() const { return address_; }

  bool is_healthy() const { return is_healthy_; }
  void set_healthy(bool is_healthy) {
    if (is_healthy_ && !is_healthy) ++counts.num_ejections;
    is_healthy_ = is_healthy;
  }

  // Takes a connection that is still open out of those that wait; closed: there is none.
  Tcp::socket take_idle(const boost::asio::any_io_executor& executor);
  void keep_idle(Tcp::socket socket);
  void drop_idle() { idle_.clear(); }

  std::vector<Tcp::endpoint> endpoints;  // where to connect; empty: not known yet
  bool is_removed = false;               // finishes what it has, gets nothing new
  int32_t num_open = 0;                  // requests that it has and has not answered
  int64_t num_open_tokens = 0;           // of them, roughly
  BackendCounts counts;

 private:
  using Clock = std::chrono::steady_clock;
  struct Idle {
    Tcp::socket socket;
    Clock::time_point since;
  };

  const int32_t id_;
  const BackendAddress address_;
  bool is_healthy_ = false;
  std::vector<Idle> idle_;
};

}  // namespace quire::gateway
