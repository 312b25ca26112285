#pragma once

#include "weights/files/model_files.h"

namespace quire {

// Returns the model that is part of the program (assets/builtin_model). It is read like any other
// checkpoint.
ModelFiles builtin_model_files();

inline constexpr const char* kBuiltinModelName = "quire-builtin";

}  // namespace quire
