// FakeBackend is a server for tests of the gateway that does exactly what a test says. It has
// sockets and threads of its own, so that it shares no code with the gateway.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/check.h"

namespace quire::gateway::test {

class FakeBackend {
 public:
  // An Exchange is a request on a connection and the means to answer it.
  struct Exchange {
    std::string request;  // head and body
    int socket = -1;
    void write(std::string_view bytes) const {
      while (!bytes.empty()) {
        const ssize_t n = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (n <= 0) return;
        bytes.remove_prefix(static_cast<size_t>(n));
      }
    }
    // Returns whether the other side closed within `wait_ms` milliseconds.
    bool is_closed(int wait_ms) const {
      pollfd poll_fd{socket, POLLIN, 0};
      char byte = 0;
      return ::poll(&poll_fd, 1, wait_ms) > 0 && ::recv(socket, &byte, 1, MSG_PEEK) == 0;
    }
  };
  // Answers a request. When it returns false, the connection is closed.
  using Answer = std::function<bool(const Exchange&)>;

  // Health checks do not reach `answer`; their status is `health`.
  explicit FakeBackend(Answer answer) : answer_(std::move(answer)) { open(); }
  ~FakeBackend() { close(); }
  FakeBackend(const FakeBackend&) = delete;
  FakeBackend& operator=(const FakeBackend&) = delete;

  std::atomic<int> health{200};
  std::atomic<int> num_requests{0};
  uint16_t port() const { return port_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

  // Stops listening and closes every connection.
  void close() {
    if (listener_ < 0) return;
    is_closing_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    ::close(listener_);
    listener_ = -1;
    {
      const std::lock_guard lock(mutex_);
      for (const int socket : sockets_) ::shutdown(socket, SHUT_RDWR);
    }
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  void open() {  // opens it again on the same port
    is_closing_ = false;
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    const int on = 1;
    ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port_);
    ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    QUIRE_CHECK(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0,
                "bind");
    socklen_t size = sizeof address;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    ::listen(listener_, 1024);
    acceptor_ = std::thread([this] { accept_all(); });
  }

 private:
  void accept_all() {
    while (true) {
      const int socket = ::accept(listener_, nullptr, nullptr);
      if (socket < 0) return;
      const std::lock_guard lock(mutex_);
      sockets_.insert(socket);
      threads_.emplace_back([this, socket] { serve(socket); });
    }
  }
  void serve(int socket) {
    std::string buffer;
    while (read_request(socket, buffer)) {
      const size_t end = buffer.find("\r\n\r\n") + 4;
      const size_t at = buffer.find("Content-Length: ");
      const size_t length = at < end ? std::stoul(buffer.substr(at + 16)) : 0;
      const Exchange exchange{buffer.substr(0, end + length), socket};
      buffer.erase(0, end + length);
      bool goes_on = true;
      if (exchange.request.starts_with("GET /ready ")) {
        exchange.write("HTTP/1.1 " + std::to_string(health.load()) +
                       " X\r\nContent-Length: 0\r\n\r\n");
      } else {
        ++num_requests;
        goes_on = answer_(exchange);
      }
      if (!goes_on) break;
    }
    const std::lock_guard lock(mutex_);
    sockets_.erase(socket);
    ::close(socket);
  }
  bool read_request(int socket, std::string& buffer) const {
    char chunk[65536];
    while (true) {
      if (const size_t head = buffer.find("\r\n\r\n"); head != buffer.npos) {
        const size_t at = buffer.find("Content-Length: ");
        const size_t length = at < head ? std::stoul(buffer.substr(at + 16)) : 0;
        if (buffer.size() >= head + 4 + length) return true;
      }
      const ssize_t n = ::recv(socket, chunk, sizeof chunk, 0);
      if (n <= 0 || is_closing_) return false;
      buffer.append(chunk, static_cast<size_t>(n));
    }
  }

  const Answer answer_;
  std::atomic<bool> is_closing_{false};
  int listener_ = -1;
  uint16_t port_ = 0;
  std::thread acceptor_;
  std::mutex mutex_;
  std::set<int> sockets_;             // guarded by mutex_
  std::vector<std::thread> threads_;  // guarded by mutex_ while the acceptor runs
};

// Returns a complete answer with its Content-Length.
inline std::string whole_answer(std::string_view body, int status = 200) {
  return "HTTP/1.1 " + std::to_string(status) +
         " X\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + std::string(body);
}
inline constexpr std::string_view kStreamHead =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
inline std::string chunk(std::string_view text) {
  char size[32];
  std::snprintf(size, sizeof size, "%zx\r\n", text.size());
  return size + std::string(text) + "\r\n";
}

}  // namespace quire::gateway::test
