// requested_model() finds the model that a request names, before anything else of its body is read.
#pragma once

#include <string>

#include "server/http/api_error.h"
#include "server/http/http_types.h"

namespace quire::server {

// Returns the member "model" of a JSON object, the part of that name of a form, or that parameter
// of the query. Ollama's routes may call it "name". Empty: the request names no model, or its body
// is malformed, which its route reports better. The body is read no further than this member.
std::string requested_model(const HttpRequest& request);

}  // namespace quire::server
