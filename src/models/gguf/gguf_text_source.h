// Reads what GGUF files of T5 and similar models say. Internal to models/.
#pragma once

#include <boost/json/object.hpp>

#include "weights/gguf/gguf.h"

namespace quire {

// Adds to `object` what only the tensors tell: the activation of MLPs, and whether each layer has
// biases of its own. Does nothing for other files.
void add_gguf_text_source(const GgufFile& file, boost::json::object& object);

}  // namespace quire
