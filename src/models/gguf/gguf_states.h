// What GGUF files say of layers that carry a state: not a door for other folders.
#pragma once

#include <boost/json/object.hpp>

#include "weights/gguf/gguf.h"

namespace quire {

// Adds to `object`, which has the sizes of the model and of Mamba already, what is told by tensors
// alone: which layers have a state, attention, experts or an MLP, which projections have a bias. Files
// without such layers add nothing.
void add_gguf_states(const GgufFile& file, boost::json::object& object);

}  // namespace quire
