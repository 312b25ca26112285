// Texts of GGUF metadata for errors, which say what came where something else was expected.
#pragma once

#include <string>

#include "weights/gguf/gguf_value.h"

namespace quire {

// Returns a single value in full, unless it is a long string, and the length and the kind of a
// list. Null, which is a key that the file lacks, is "nothing".
std::string shown(const GgufValue* value);

}  // namespace quire
