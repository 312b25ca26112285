#include "server/http/http_types.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace quire::server {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char l = lower(c);
  return l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
}

// A header value can never start a new line, whatever it contains.
void append_header_value(std::string& out, std::string_view value) {
  for (const char c : value)
    out.push_back(static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c);
}

}  // namespace

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

std::optional<std::string_view> find_header(const HeaderList& headers, std::string_view name) {
  for (const auto& [key, value] : headers) {
    if (equals_ignoring_case(key, name)) return value;
  }
  return std::nullopt;
}

void append_headers(HttpResponse& response, const HeaderList& headers) {
  response.headers.insert(response.headers.end(), headers.begin(), headers.end());
}

std::string_view reason_phrase(int status) {
  static constexpr std::array<std::pair<int, std::string_view>, 22> kPhrases = {{
      {100, "Continue"},
      {200, "OK"},
      {204, "No Content"},
      {304, "Not Modified"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {408, "Request Timeout"},
      {413, "Content Too Large"},
      {414, "URI Too Long"},
      {415, "Unsupported Media Type"},
      {417, "Expectation Failed"},
      {422, "Unprocessable Content"},
      {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"},
      {499, "Client Closed Request"},
      {500, "Internal Server Error"},
      {501, "Not Implemented"},
      {503, "Service Unavailable"},
      {505, "HTTP Version Not Supported"},
  }};
  for (const auto& [code, phrase] : kPhrases) {
    if (code == status) return phrase;
  }
  return "Unknown";
}

bool read_target(std::string_view target, HttpRequest& request) {
  std::string& path = request.path;
  path.clear();
  request.query.clear();
  // This is the absolute form of a target, which requests to a proxy have and which servers must
  // accept (RFC 9112, section 3.2.2).
  if (constexpr std::string_view kScheme = "http://"; target.starts_with(kScheme)) {
    target.remove_prefix(kScheme.size());
    target.remove_prefix(std::min(target.find_first_of("/?"), target.size()));
    if (target.empty() || target.front() == '?') return false;
  }
  if (target.empty() || target.front() != '/') return false;
  request.target = target;
  if (const size_t mark = target.find('?'); mark != std::string_view::npos) {
    request.query = target.substr(mark + 1);
    target = target.substr(0, mark);
  }
  for (size_t i = 0; i < target.size(); ++i) {
    if (target[i] != '%') {
      path.push_back(target[i]);
      continue;
    }
    if (i + 2 >= target.size()) return false;
    const int high = hex_digit(target[i + 1]);
    const int low = hex_digit(target[i + 2]);
    if (high < 0 || low < 0 || (high == 0 && low == 0)) return false;
    path.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return true;
}

std::string http_date(std::time_t unix_time_s) {
  return fmt::format("{:%a, %d %b %Y %H:%M:%S} GMT", fmt::gmtime(unix_time_s));
}

std::string response_head(const HttpResponse& response, const HeadOptions& options) {
  std::string head = fmt::format("HTTP/1.{} {} {}\r\n", options.version == 10 ? 0 : 1,
                                 response.status, reason_phrase(response.status));
  if (!options.date.empty()) head += fmt::format("Date: {}\r\n", options.date);
  if (!response.content_type.empty()) {
    head += fmt::format("Content-Type: {}\r\n", response.content_type);
  }
  for (const auto& [name, value] : response.headers) {
    head += name;
    head += ": ";
    append_header_value(head, value);
    head += "\r\n";
  }
  const bool bodiless = response.status == 204 || response.status == 304;
  if (options.content_length && !bodiless) {
    head += fmt::format("Content-Length: {}\r\n", *options.content_length);
  } else if (!options.content_length && options.version == 11) {
    head += "Transfer-Encoding: chunked\r\n";
  }
  // HTTP/1.1 keeps a connection open by default, 1.0 closes it.
  if (!options.keep_alive) {
    head += "Connection: close\r\n";
  } else if (options.version == 10) {
    head += "Connection: keep-alive\r\n";
  }
  head += "\r\n";
  return head;
}

}  // namespace quire::server
