// These functions turn a client's request into the one that goes to a backend.
#pragma once

#include <string>
#include <string_view>

#include "gateway/backend.h"
#include "server/http/http_types.h"

namespace quire::gateway {

// Returns the text of the request with `body` in the place of its own body, and without the headers
// that only concern the client's connection.
std::string request_text(const server::HttpRequest& request, std::string_view body,
                         const Backend& backend);
// Returns the session that a header of the request names (several clients and gateways have such
// headers), or an empty text when there is none.
std::string_view session_of(const server::HttpRequest& request);
// Returns whether the status means that the backend has no room or is shutting down, so that
// another backend may get the request.
bool may_be_retried(int status);

}  // namespace quire::gateway
