// The routes of responses that are kept: GET, DELETE /v1/responses/ID, POST ID/cancel, GET
// ID/input_items.
#pragma once

#include <memory>
#include <string>

#include "server/http/http_types.h"
#include "server/openai/prepare.h"

namespace quire::server {

void serve_stored_response(const HttpRequest& request, const PrepareContext& context,
                           HeaderList headers, std::shared_ptr<ReplyChannel> reply);
// Whose responses a request may see: those of its own key.
std::string owner_of(const HttpRequest& request);

}  // namespace quire::server
