// What GGUF files say of T5 and its kin: not a door for other folders.
#pragma once

#include <boost/json/object.hpp>

#include "weights/gguf/gguf.h"

namespace quire {

// Adds to `object` what tensors alone tell: which activation MLPs have, and whether each layer has biases
// of its own. Other files add nothing.
void add_gguf_text_source(const GgufFile& file, boost::json::object& object);

}  // namespace quire
