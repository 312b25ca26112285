// A Door is one API to the same model. It turns a request into fields of a chat or a completion and
// prints the answer; everything in between is shared by all APIs. Members that a route's mode does
// not use are null.
#pragma once

#include "server/http/api_error.h"
#include "server/http/http_types.h"
#include "server/openai/prepare.h"

namespace quire::server {

struct Door {
  // Used by routes that generate.
  ApiResult<PreparedCall> (*prepare)(const HttpRequest& request, const PrepareContext& context);
  // Used by routes that do not generate.
  HttpResponse (*answer)(const HttpRequest& request, const PrepareContext& context);
  // Used by routes that write the answer themselves. It runs on the strand of `reply`. `headers`
  // are added to the answer.
  void (*serve)(const HttpRequest& request, const PrepareContext& context, HeaderList headers,
                std::shared_ptr<ReplyChannel> reply);
  // Prints an error in the form of this API.
  HttpResponse (*refuse)(const ApiError& error);
};

// Returns a door that only answers and whose errors are OpenAI's.
constexpr Door page_door(HttpResponse (*answer)(const HttpRequest&, const PrepareContext&)) {
  return {nullptr, answer, nullptr, &error_response};
}

}  // namespace quire::server
