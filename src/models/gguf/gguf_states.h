// Reads from GGUF files which layers have a state. Internal to models/.
#pragma once

#include <boost/json/object.hpp>

#include "weights/gguf/gguf.h"

namespace quire {

// Adds to `object`, which has the sizes of the model and of Mamba already, what only the tensors
// tell: which layers have a state, attention, experts or an MLP, and which projections have a bias.
// Does nothing for files without states.
void add_gguf_states(const GgufFile& file, boost::json::object& object);

}  // namespace quire
