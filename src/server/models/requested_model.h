// The model that a request asks for, before anything else of its body is read.
#pragma once

#include <string>

#include "server/http/api_error.h"
#include "server/http/http_types.h"

namespace quire::server {

// The member "model" of a JSON object, the part of that name of a form, or the parameter of the
// query; Ollama's routes may call it "name". Empty: none is named, or the body is not what it should
// be, which its route says better. Looks no further than the member.
std::string requested_model(const HttpRequest& request);

}  // namespace quire::server
