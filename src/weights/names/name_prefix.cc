#include "weights/names/name_prefix.h"

namespace quire {

NamePrefix find_prefix(const NameMap& names, const TensorSource& source) {
  if (names.prefixes.empty()) return {};
  for (const NamePrefix& prefix : names.prefixes) {
    for (const NameMapEntry* probe : entries_of(names, TensorRole::kTokenEmbedding)) {
      if (source.find(tensor_name(*probe, prefix, -1, "weight")) != nullptr) return prefix;
    }
  }
  return names.prefixes.front();
}

}  // namespace quire
