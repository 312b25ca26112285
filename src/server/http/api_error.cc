#include "server/http/api_error.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cctype>

#include "base/utf8.h"

namespace quire::server {
namespace {

namespace json = boost::json;

constexpr size_t kMaxMessageBytes = 2000;

// Returns the largest size of at most `max_bytes` that does not cut a character.
size_t utf8_cut(std::string_view text, size_t max_bytes) {
  while (max_bytes > 0 && (static_cast<unsigned char>(text[max_bytes]) & 0xC0) == 0x80) --max_bytes;
  return max_bytes;
}

std::string_view type_of(int status) {
  switch (status) {
    case 400:
      return "BadRequestError";
    case 401:
      return "AuthenticationError";
    case 404:
      return "NotFoundError";
    case 405:
      return "MethodNotAllowedError";
    case 408:
      return "RequestTimeoutError";
    case 413:
      return "RequestTooLargeError";
    case 422:
      return "UnprocessableEntityError";
    case 429:
      return "TooManyRequests";
    case 501:
      return "NotImplementedError";
    case 505:
      return "HttpVersionNotSupported";
    case 503:
      return "ServiceUnavailableError";
    default:
      return status < 500 ? "BadRequestError" : "InternalServerError";
  }
}

bool is_field_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
}

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr size_t kMaxBytes = 100;
  if (text.size() <= kMaxBytes) return fmt::format("'{}'", text);
  return fmt::format("'{}...' ({} bytes)", text.substr(0, utf8_cut(text, kMaxBytes)), text.size());
}

std::string presentable(std::string message) {
  message = to_valid_utf8(message);
  // The message may quote the request, but must not contain its line breaks.
  for (char& c : message) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  if (message.size() > kMaxMessageBytes) {
    message.resize(utf8_cut(message, kMaxMessageBytes));
    message += "...";
  }
  return message;
}

std::string error_body(const ApiError& error) {
  if (error.status == 401) return R"({"error":"Unauthorized"})";
  json::object inner;
  inner["message"] = presentable(error.message);
  inner["type"] = error.type;
  if (error.param) {
    inner["param"] = *error.param;
  } else {
    inner["param"] = nullptr;
  }
  inner["code"] = error.status;
  json::object body;
  body["error"] = std::move(inner);
  return json::serialize(body);
}

HttpResponse error_response(const ApiError& error) {
  return error_response(error, error_body(error));
}

HttpResponse error_response(const ApiError& error, std::string body) {
  HttpResponse response{error.status, "application/json", std::move(body), {}};
  if (error.retry_after_s) {
    response.headers.emplace_back("Retry-After", std::to_string(*error.retry_after_s));
  }
  // Clients repeat a request after a 5xx, but a missing feature will not be there in a second.
  if (error.status == 501) response.headers.emplace_back("X-Should-Retry", "false");
  if (error.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

ApiError api_error(int status, std::string message) {
  ApiError error;
  error.status = status;
  error.type = type_of(status);
  error.message = std::move(message);
  return error;
}

ApiError field_error(std::string_view param, std::string message) {
  ApiError error = api_error(400, fmt::format("{}: {}", param, message));
  error.param = std::string(param);
  return error;
}

ApiError unsupported_field(std::string_view param, std::string message) {
  ApiError error = api_error(501, fmt::format("{}: {}", param, message));
  error.param = std::string(param);
  return error;
}

ApiError from_status(const Status& status) {
  const auto http_status = [&] {
    switch (status.code()) {
      case StatusCode::kInvalidArgument:
        return 400;
      case StatusCode::kNotFound:
        return 404;
      case StatusCode::kResourceExhausted:
        return 429;
      case StatusCode::kTooLarge:
        return 413;
      case StatusCode::kDeadlineExceeded:
        return 408;
      case StatusCode::kUnavailable:
        return 503;
      case StatusCode::kUnimplemented:
        return 501;
      default:
        return 500;
    }
  }();
  ApiError error = api_error(http_status, status.message());
  if (http_status == 400) {
    const std::string_view message = status.message();
    if (const size_t colon = message.find(": "); colon != std::string_view::npos) {
      if (is_field_name(message.substr(0, colon))) error.param = message.substr(0, colon);
    }
  }
  return error;
}

}  // namespace quire::server
