#include "weights/names/name_map.h"

#include <fmt/format.h>

namespace quire {

const NameMapEntry* find_role(const NameMap& map, TensorRole role) {
  for (const NameMapEntry& entry : map.entries) {
    if (entry.role == role) return &entry;
  }
  return nullptr;
}

std::string tensor_name(const NameMapEntry& entry, const NamePrefix& prefix, int32_t layer,
                        std::string_view suffix) {
  std::string name(entry.role == TensorRole::kLmHead ? prefix.head : prefix.trunk);
  const size_t hole = entry.pattern.find("{}");
  if (hole == std::string_view::npos) {
    name += entry.pattern;
  } else {
    name += entry.pattern.substr(0, hole);
    name += fmt::format("{}", layer);
    name += entry.pattern.substr(hole + 2);
  }
  return name.append(".").append(suffix);
}

bool is_norm(TensorRole role) {
  switch (role) {
    case TensorRole::kFinalNorm:
    case TensorRole::kInputNorm:
    case TensorRole::kQNorm:
    case TensorRole::kKNorm:
    case TensorRole::kPostAttentionNorm:
    case TensorRole::kPreMlpNorm:
    case TensorRole::kPostMlpNorm:
      return true;
    default:
      return false;
  }
}

}  // namespace quire
