// Errors are printed in the form of Anthropic's API.
#pragma once

#include <string>

#include "server/http/api_error.h"

namespace quire::server {

// Returns {"type": "error", "error": {"type", "message"}}, which is also the data of a stream's
// event "error".
std::string messages_error_body(const ApiError& error);
HttpResponse messages_error_response(const ApiError& error);

}  // namespace quire::server
