// What GGUF files of models with several residual streams (Gemma 3n) say under the keys of config.json.
#pragma once

#include <boost/json/object.hpp>

#include "base/result.h"
#include "weights/gguf/gguf.h"

namespace quire {

// Nothing happens for files of other models.
Status add_gguf_streams(const GgufFile& file, boost::json::object& object);

}  // namespace quire
