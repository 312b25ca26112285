#include "gateway/request_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/text_fields.h"

namespace quire::gateway {
namespace {

constexpr std::string_view kConnectionNames[] = {"connection",
                                                 "content-length",
                                                 "keep-alive",
                                                 "proxy-connection",
                                                 "proxy-authenticate",
                                                 "proxy-authorization",
                                                 "te",
                                                 "trailer",
                                                 "transfer-encoding",
                                                 "upgrade"};

// Adds the members of a list whose members are separated by commas.
void add_members(std::string_view list, std::vector<std::string>& members) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    members.emplace_back(trim(list.substr(0, comma)));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
}

}  // namespace

void drop_connection_headers(server::HeaderList& headers) {
  std::vector<std::string> dropped(std::begin(kConnectionNames), std::end(kConnectionNames));
  for (const auto& [name, value] : headers) {
    if (server::equals_ignoring_case(name, "connection")) add_members(value, dropped);
  }
  std::erase_if(headers, [&](const auto& header) {
    return std::ranges::any_of(dropped, [&](const std::string& name) {
      return server::equals_ignoring_case(header.first, name);
    });
  });
}

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
  std::string text = fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\n", request.method, request.target,
                                 backend.address().authority());
  server::HeaderList headers = request.headers;
  drop_connection_headers(headers);
  for (const auto& [name, value] : headers) {
    // The gateway names the host anew and has answered the expectation.
    if (!server::equals_ignoring_case(name, "host") &&
        !server::equals_ignoring_case(name, "expect"))
      fmt::format_to(std::back_inserter(text), "{}: {}\r\n", name, value);
  }
  if (!body.empty() || request.method == "POST")
    fmt::format_to(std::back_inserter(text), "Content-Length: {}\r\n", body.size());
  return text.append("\r\n").append(body);
}

}  // namespace quire::gateway
