// Which of a name map's prefixes a checkpoint uses.
#pragma once

#include "weights/names/name_map.h"
#include "weights/tensor_source.h"

namespace quire {

// The first whose token embedding exists; the first of all when none does.
NamePrefix find_prefix(const NameMap& names, const TensorSource& source);

}  // namespace quire
