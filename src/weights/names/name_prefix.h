// find_prefix() finds which of a name map's prefixes a checkpoint uses.
#pragma once

#include "weights/files/tensor_source.h"
#include "weights/names/name_map.h"

namespace quire {

// Returns the first prefix with which the token embedding exists, or the first prefix of all if
// none fits.
NamePrefix find_prefix(const NameMap& names, const TensorSource& source);

}  // namespace quire
