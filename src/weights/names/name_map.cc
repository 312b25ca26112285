#include "weights/names/name_map.h"

#include <fmt/format.h>

namespace quire {

std::vector<const NameMapEntry*> entries_of(const NameMap& map, TensorRole role) {
  std::vector<const NameMapEntry*> entries;
  for (const NameMapEntry& entry : map.entries) {
    if (entry.role == role) entries.push_back(&entry);
  }
  if (!entries.empty() || map.base == nullptr) return entries;
  return entries_of(*map.base, role);
}

const NameMapEntry* find_role(const NameMap& map, TensorRole role) {
  const std::vector<const NameMapEntry*> entries = entries_of(map, role);
  return entries.empty() ? nullptr : entries.front();
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
  return entry.bare ? name : name.append(".").append(suffix);
}

bool is_norm(TensorRole role) {
  switch (role) {
    case TensorRole::kEmbeddingNorm:
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
