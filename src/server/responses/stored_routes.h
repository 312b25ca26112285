// These are the routes of stored responses: GET and DELETE /v1/responses/ID, POST ID/cancel, GET
// ID/input_items.
#pragma once

#include <memory>

#include "server/http/http_types.h"
#include "server/openai/prepare.h"

namespace quire::server {

void serve_stored_response(const HttpRequest& request, const PrepareContext& context,
                           HeaderList headers, std::shared_ptr<ReplyChannel> reply);

}  // namespace quire::server
