// These are routes of llama.cpp's server: /completion, /infill, and those that its clients use to
// ask about the model.
#pragma once

#include <boost/json/object.hpp>
#include <span>

#include "server/door/route.h"

namespace quire::server {

extern const Door kLlamaCompletionDoor, kLlamaInfillDoor;

// Answers {"content": text, "add_special": false, "with_pieces": false} with {"tokens": [...]}.
HttpResponse llama_tokenize(const boost::json::object& body, const ServedModel& model);

std::span<const Route> llama_routes();

}  // namespace quire::server
