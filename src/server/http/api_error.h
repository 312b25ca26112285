// ApiError is an error as the API prints it; ApiResult is a value or such an error.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/result.h"
#include "server/http/http_types.h"

namespace quire::server {

struct ApiError {
  int status = 400;
  std::string type = "BadRequestError";
  std::string message;
  std::optional<std::string> param;  // dotted path of the field at fault
  std::optional<int64_t> retry_after_s;
};

// Returns {"error":{"message","type","param","code"}}. For 401 it returns {"error":"Unauthorized"},
// as vLLM prints it.
std::string error_body(const ApiError& error);
HttpResponse error_response(const ApiError& error);
// Returns the same answer with another body, for APIs that print errors in another form.
HttpResponse error_response(const ApiError& error, std::string body);
// Returns a message that is fit for clients: one line of valid UTF-8 that is not too long.
std::string presentable(std::string message);

// Returns an error with status 400 about one field.
ApiError field_error(std::string_view param, std::string message);
// Returns an error with status 501 about one field, whose feature this server does not have.
ApiError unsupported_field(std::string_view param, std::string message);
// Returns an error with this status and the type that belongs to it.
ApiError api_error(int status, std::string message);
// Returns the HTTP error of a Status. A message of the form "field: text" names the field as param.
ApiError from_status(const Status& status);

// Returns 'text' for use in a message. A long text is cut, so that the end of the message remains
// visible.
std::string in_quotes(std::string_view text);

template <typename T>
class [[nodiscard]] ApiResult {
 public:
  ApiResult(T value) : state_(std::move(value)) {}         // NOLINT: implicit by design
  ApiResult(ApiError error) : state_(std::move(error)) {}  // NOLINT: implicit by design
  bool ok() const { return std::holds_alternative<T>(state_); }
  T& value() & { return std::get<T>(state_); }
  const T& value() const& { return std::get<T>(state_); }
  T&& value() && { return std::get<T>(std::move(state_)); }
  const ApiError& error() const { return std::get<ApiError>(state_); }

 private:
  std::variant<T, ApiError> state_;
};
using ApiCheck = std::optional<ApiError>;  // nullopt: no error

}  // namespace quire::server
