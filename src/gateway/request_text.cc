#include "gateway/request_text.h"

#include <fmt/format.h>

#include <iterator>

namespace quire::gateway {
namespace {

// Returns whether a header is about the client's connection to the gateway and not about the
// request.
bool is_of_connection(std::string_view name) {
  constexpr std::string_view kNames[] = {
      "connection", "keep-alive",     "transfer-encoding",  "te", "trailer", "upgrade", "host",
      "expect",     "content-length", "proxy-authorization"};
  for (const std::string_view known : kNames) {
    if (server::equals_ignoring_case(name, known)) return true;
  }
  return false;
}

// Returns the request target for a path, which server::split_target() has decoded, and a query.
std::string target_of(std::string_view path, std::string_view query) {
  constexpr std::string_view kPlain = "/-._~!$&'()*+,;=:@";
  std::string target;
  for (const char c : path) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || kPlain.find(c) != kPlain.npos;
    if (is_plain) {
      target += c;
    } else {
      fmt::format_to(std::back_inserter(target), "%{:02X}", static_cast<unsigned char>(c));
    }
  }
  if (!query.empty()) target.append("?").append(query);
  return target;
}

}  // namespace

std::string_view session_of(const server::HttpRequest& request) {
  for (const std::string_view name :
       {"x-session-id", "x-session-affinity", "session-id", "x-claude-code-session-id"}) {
    if (const auto value = request.header(name)) return *value;
  }
  return {};
}

bool may_be_retried(int status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

std::string request_text(const server::HttpRequest& request, std::string_view body,
                         const Backend& backend) {
  std::string text =
      fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\n", request.method,
                  target_of(request.path, request.query), backend.address().authority());
  for (const auto& [name, value] : request.headers) {
    if (!is_of_connection(name))
      fmt::format_to(std::back_inserter(text), "{}: {}\r\n", name, value);
  }
  if (!body.empty() || request.method == "POST")
    fmt::format_to(std::back_inserter(text), "Content-Length: {}\r\n", body.size());
  return text.append("\r\n").append(body);
}

}  // namespace quire::gateway
