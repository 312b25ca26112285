#include "server/testing/test_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <charconv>

#include "base/check.h"

namespace quire::server {

TestClient::TestClient(uint16_t port) {
  fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  const int rc = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  QUIRE_CHECK(rc == 0, "cannot connect to port {}", port);
  const int on = 1;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

TestClient::~TestClient() { close(); }

void TestClient::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void TestClient::shutdown_write() { ::shutdown(fd_, SHUT_WR); }

void TestClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return;  // the server has closed; its answer can still be read
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

void TestClient::send_slowly(std::string_view bytes) {
  for (const char c : bytes) send({&c, 1});
}

bool TestClient::fill() {
  pollfd poll_fd{fd_, POLLIN, 0};
  if (::poll(&poll_fd, 1, 10'000) <= 0) return false;
  char chunk[65536];
  const ssize_t n = ::recv(fd_, chunk, sizeof chunk, 0);
  if (n <= 0) return false;
  buffer_.append(chunk, static_cast<size_t>(n));
  return true;
}

std::string TestClient::receive_some(size_t count) {
  while (buffer_.size() < count && fill()) {
  }
  return std::exchange(buffer_, {});
}

bool TestClient::closed_by_server() {
  pollfd poll_fd{fd_, POLLIN, 0};
  if (!buffer_.empty() || ::poll(&poll_fd, 1, 10'000) <= 0) return false;
  char c = 0;
  return ::recv(fd_, &c, 1, 0) <= 0;
}

ClientResponse TestClient::receive(bool no_body) {
  ClientResponse response;
  size_t end = 0;
  while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
    if (!fill()) return response;
  }
  response.head = buffer_.substr(0, end + 2);
  buffer_.erase(0, end + 4);
  QUIRE_CHECK(response.head.starts_with("HTTP/1.") && response.head.size() > 12,
              "expected the head of an answer, got '{}'", response.head);
  std::from_chars(response.head.data() + 9, response.head.data() + 12, response.status);
  for (size_t at = response.head.find("\r\n") + 2; at < response.head.size();) {
    const size_t line_end = response.head.find("\r\n", at);
    const std::string line = response.head.substr(at, line_end - at);
    const size_t colon = line.find(':');
    std::string name = line.substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return static_cast<char>(std::tolower(c)); });
    response.headers[name] = line.substr(std::min(colon + 2, line.size()));
    at = line_end + 2;
  }
  if (response.status == 100) return receive(no_body);
  if (no_body || response.status == 204 || response.status == 304) {
    response.complete = true;
    return response;
  }
  if (response.headers.contains("content-length")) {
    const size_t length = std::stoul(response.headers["content-length"]);
    while (buffer_.size() < length && fill()) {
    }
    response.complete = buffer_.size() >= length;
    response.body = buffer_.substr(0, length);
    buffer_.erase(0, response.body.size());
    return response;
  }
  if (!response.headers.contains("transfer-encoding")) {  // until close
    while (fill()) {
    }
    response.body = std::exchange(buffer_, {});
    response.complete = true;
    return response;
  }
  while (true) {
    size_t line_end = 0;
    while ((line_end = buffer_.find("\r\n")) == std::string::npos) {
      if (!fill()) return response;
    }
    const size_t size = std::stoul(buffer_.substr(0, line_end), nullptr, 16);
    while (buffer_.size() < line_end + 2 + size + 2) {
      if (!fill()) return response;
    }
    response.body += buffer_.substr(line_end + 2, size);
    buffer_.erase(0, line_end + 2 + size + 2);
    if (size == 0) {
      response.complete = true;
      return response;
    }
  }
}

std::string http_request(std::string_view method, std::string_view path, std::string_view body,
                         const std::vector<std::string>& headers, std::string_view version) {
  std::string text = fmt::format("{} {} HTTP/{}\r\nHost: localhost\r\n", method, path, version);
  bool has_type = false;
  for (const std::string& header : headers) {
    text += header + "\r\n";
    has_type |= header.rfind("Content-Type", 0) == 0;
  }
  if (!body.empty()) {
    if (!has_type) text += "Content-Type: application/json\r\n";
    text += fmt::format("Content-Length: {}\r\n", body.size());
  }
  return text + "\r\n" + std::string(body);
}

ClientResponse TestClient::request(std::string_view method, std::string_view path,
                                   std::string_view body, const std::vector<std::string>& headers) {
  send(http_request(method, path, body, headers));
  return receive(method == "HEAD");
}

boost::json::value parse(std::string_view text) {
  boost::json::error_code ec;
  boost::json::value value = boost::json::parse({text.data(), text.size()}, ec);
  QUIRE_CHECK(!ec, "not JSON: {}", text);
  return value;
}

std::vector<std::string> events_of(std::string_view sse) {
  std::vector<std::string> events;
  while (!sse.empty()) {
    if (sse.starts_with("event: ")) sse.remove_prefix(std::min(sse.find('\n') + 1, sse.size()));
    const size_t end = sse.find("\n\n");
    if (end == std::string_view::npos || sse.substr(0, 6) != "data: ") {
      events.push_back("broken: " + std::string(sse));
      break;
    }
    events.emplace_back(sse.substr(6, end - 6));
    sse.remove_prefix(end + 2);
  }
  return events;
}

}  // namespace quire::server
