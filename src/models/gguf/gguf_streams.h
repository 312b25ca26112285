// Translates the GGUF keys of models with several residual streams (Gemma 3n) to those of
// config.json.
#pragma once

#include <boost/json/object.hpp>

#include "base/result.h"
#include "weights/gguf/gguf.h"

namespace quire {

// Does nothing for files of other models.
Status add_gguf_streams(const GgufFile& file, boost::json::object& object);

}  // namespace quire
