// The data of all dialects. Sources: the models' own chat templates, and vLLM's parsers for names.
#pragma once

#include <vector>

#include "chat/dialects/dialect.h"

namespace quire {

std::vector<Dialect> make_dialects();

}  // namespace quire
