#include "weights/names/name_prefix.h"

namespace quire {

NamePrefix find_prefix(const NameMap& names, const TensorSource& source) {
  if (names.prefixes.empty()) return {};
  const NameMapEntry* probe = find_role(names, TensorRole::kTokenEmbedding);
  for (const NamePrefix& prefix : names.prefixes) {
    if (probe != nullptr && source.find(tensor_name(*probe, prefix, -1, "weight")) != nullptr) {
      return prefix;
    }
  }
  return names.prefixes.front();
}

}  // namespace quire
