#include "server/anthropic/messages_error.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

namespace quire::server {
namespace {

namespace json = boost::json;

constexpr int kOverloaded = 529;  // Anthropic's own

std::string_view type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 408:
      return "timeout_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status < 500 || status == 501 ? "invalid_request_error" : "api_error";
  }
}

}  // namespace

std::string messages_error_body(const ApiError& error) {
  const std::string message = error.status == 401
                                  ? "expected a known key in the header x-api-key or Authorization"
                                  : presentable(error.message);
  return json::serialize(
      json::object{{"type", "error"},
                   {"error", json::object{{"type", type_of(error.status)}, {"message", message}}}});
}

HttpResponse messages_error_response(const ApiError& error) {
  HttpResponse response = error_response(error, messages_error_body(error));
  // A feature that is missing is reported with 400, because clients repeat a request after a server
  // error.
  if (error.status == 501) response.status = 400;
  if (error.status == 503) response.status = kOverloaded;
  return response;
}

}  // namespace quire::server
