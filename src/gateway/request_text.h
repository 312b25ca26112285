// These functions turn a client's request into the one that goes to a backend.
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
// Returns the session that the headers name which clients and gateways send, or an empty text when
// they name none.
std::string_view session_of(const server::HttpRequest& request);
// Returns whether the status says that a backend has no room or is about to end, so that another
// one may take the request.
bool may_be_retried(int status);

}  // namespace quire::gateway
