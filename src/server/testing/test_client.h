// TestClient is a blocking HTTP client for tests. It sends exactly the bytes that it is given and
// parses answers itself, so that it shares no code with the server under test.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire::server {

struct ClientResponse {
  int status = 0;
  std::string head;                            // status line and headers as they came
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // chunks put together
  bool complete = false;                       // the body ended as its framing says
};

class TestClient {
 public:
  explicit TestClient(uint16_t port);
  ~TestClient();
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  void send(std::string_view bytes);
  // Sends each byte in a packet of its own.
  void send_slowly(std::string_view bytes);
  // Returns the next answer; waits at most 10 s. `no_body` is set for the answer to HEAD.
  ClientResponse receive(bool no_body = false);
  // Reads until at least `count` bytes have arrived.
  std::string receive_some(size_t count);
  bool closed_by_server();  // waits at most 10 s
  void shutdown_write();
  void close();

  // Sends one request and returns its answer, on this connection.
  ClientResponse request(std::string_view method, std::string_view path, std::string_view body = "",
                         const std::vector<std::string>& headers = {});
  ClientResponse post(std::string_view path, std::string_view json,
                      const std::vector<std::string>& headers = {}) {
    return request("POST", path, json, headers);
  }

 private:
  bool fill();
  int fd_ = -1;
  std::string buffer_;
};

std::string http_request(std::string_view method, std::string_view path, std::string_view body,
                         const std::vector<std::string>& headers = {},
                         std::string_view version = "1.1");
boost::json::value parse(std::string_view text);
// Returns the data of every event, including [DONE].
std::vector<std::string> events_of(std::string_view sse);

}  // namespace quire::server
