// Routes of llama.cpp's server: /completion, /infill, and what its clients ask of the model.
#pragma once

#include <boost/json/object.hpp>

#include "server/generation/door.h"

namespace quire::server {

extern const Door kLlamaCompletionDoor, kLlamaInfillDoor, kLlamaPropsDoor, kLlamaSlotsDoor;

// {"content": text, "add_special": false, "with_pieces": false} to {"tokens": [...]}.
HttpResponse llama_tokenize(const boost::json::object& body, const ServedModel& model);

}  // namespace quire::server
