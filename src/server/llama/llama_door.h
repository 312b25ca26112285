// Routes of llama.cpp's server: /completion, /infill, and what its clients ask of the model.
#pragma once

#include <boost/json/object.hpp>
#include <span>

#include "server/door/route.h"

namespace quire::server {

extern const Door kLlamaCompletionDoor, kLlamaInfillDoor;

// {"content": text, "add_special": false, "with_pieces": false} to {"tokens": [...]}.
HttpResponse llama_tokenize(const boost::json::object& body, const ServedModel& model);

std::span<const Route> llama_routes();

}  // namespace quire::server
