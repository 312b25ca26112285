// A client's request as it goes to a backend.
#pragma once

#include <string>
#include <string_view>

#include "gateway/backend.h"
#include "server/http/http_types.h"

namespace quire::gateway {

// With this body instead of the request's own, and without the headers that are about the client's
// connection alone.
std::string request_text(const server::HttpRequest& request, std::string_view body,
                         const Backend& backend);
// What names a session in the headers that clients and gateways send; empty: nothing.
std::string_view session_of(const server::HttpRequest& request);
// A backend that has no room or is about to end, where another may take the request.
bool may_be_retried(int status);

}  // namespace quire::gateway
