// This is the data of all dialects. Its sources are the models' own chat templates, and vLLM's
// parsers for the names.
#pragma once

#include <vector>

#include "chat/dialects/dialect.h"

namespace quire {

std::vector<Dialect> make_dialects();

}  // namespace quire
