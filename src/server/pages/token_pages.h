// These are /tokenize and /detokenize in the forms of vLLM and llama.cpp.
#pragma once

#include <boost/json/object.hpp>
#include <span>
#include <string>

#include "server/door/route.h"

namespace quire::server {

std::span<const Route> token_routes();

// Returns the prompt that the chat route would make of the chat fields of `body`, and removes these
// fields from it.
ApiResult<std::string> chat_text(boost::json::object& body, const PrepareContext& context);

}  // namespace quire::server
