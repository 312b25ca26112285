// These functions turn a client's request into the one that goes to a backend. A proxy does not pass
// on what is about one connection and not about the message (RFC 9110, section 7.6.1).
#pragma once

#include <string>
#include <string_view>

#include "gateway/backend.h"
#include "server/http/http_types.h"

namespace quire::gateway {

// Drops the headers that are always about one connection, and those that the message's own
// Connection header names. Whoever sends the message on writes such headers anew.
void drop_connection_headers(server::HeaderList& headers);
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
