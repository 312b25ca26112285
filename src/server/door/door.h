// A door is one API through which the same model is reached. It says how a request becomes fields
// of a chat or a completion, and how what comes of it is written; all between is the same for all.
#pragma once

#include "server/http/api_error.h"
#include "server/http/http_types.h"
#include "server/openai/prepare.h"

namespace quire::server {

struct Door {
  // Of routes that generate.
  ApiResult<PreparedCall> (*prepare)(const HttpRequest& request, const PrepareContext& context);
  // Of routes that do not.
  HttpResponse (*answer)(const HttpRequest& request, const PrepareContext& context);
  // Of routes that answer in a way of their own, on the strand of `reply`. `headers` go on the answer.
  void (*serve)(const HttpRequest& request, const PrepareContext& context, HeaderList headers,
                std::shared_ptr<ReplyChannel> reply);
  // Prints errors as this API has them.
  HttpResponse (*refuse)(const ApiError& error);
};

// Returns a door whose errors are OpenAI's, and which only answers.
constexpr Door page_door(HttpResponse (*answer)(const HttpRequest&, const PrepareContext&)) {
  return {nullptr, answer, nullptr, &error_response};
}

}  // namespace quire::server
