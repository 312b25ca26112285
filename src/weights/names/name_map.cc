#include "weights/names/name_map.h"

#include <fmt/format.h>

#include <charconv>

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

namespace {

void fill_hole(std::string& name, std::string_view hole, int32_t number) {
  const size_t at = name.find(hole);
  if (at != std::string::npos) name.replace(at, hole.size(), fmt::format("{}", number));
}

bool is_head(TensorRole role) {
  return role == TensorRole::kLmHead || role == TensorRole::kLogitBias ||
         role == TensorRole::kClassifierDense || role == TensorRole::kClassifierNorm ||
         role == TensorRole::kClassifier || role == TensorRole::kSentenceDense;
}

}  // namespace

std::string tensor_name(const NameMapEntry& entry, const NamePrefix& prefix, int32_t layer,
                        std::string_view suffix, int32_t expert) {
  std::string name(is_head(entry.role) ? prefix.head : prefix.trunk);
  name += entry.pattern;
  fill_hole(name, "{}", layer);
  fill_hole(name, "{e}", expert);
  return entry.bare ? name : name.append(".").append(suffix);
}

int32_t layer_of_name(const NameMap& map, const NamePrefix& prefix, std::string_view full_name) {
  std::string_view name = full_name;
  if (!name.starts_with(prefix.trunk)) return -1;
  name.remove_prefix(prefix.trunk.size());
  for (const NameMapEntry& entry : map.entries) {
    const size_t hole = entry.pattern.find("{}");
    if (hole == std::string_view::npos || !name.starts_with(entry.pattern.substr(0, hole)))
      continue;
    const std::string_view rest = name.substr(hole);
    int32_t layer = -1;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), layer);
    if (error == std::errc() && layer >= 0 && end != rest.data() + rest.size() && *end == '.')
      return layer;
  }
  return map.base == nullptr ? -1 : layer_of_name(*map.base, prefix, full_name);
}

bool is_norm(TensorRole role) {
  switch (role) {
    case TensorRole::kEmbeddingNorm:
    case TensorRole::kFinalNorm:
    case TensorRole::kInputNorm:
    case TensorRole::kQNorm:
    case TensorRole::kKNorm:
    case TensorRole::kHeadsNorm:
    case TensorRole::kPostAttentionNorm:
    case TensorRole::kCrossNorm:
    case TensorRole::kCrossQNorm:
    case TensorRole::kCrossKNorm:
    case TensorRole::kPreMlpNorm:
    case TensorRole::kInnerNorm:
    case TensorRole::kPostMlpNorm:
    case TensorRole::kDraftEmbeddingNorm:
    case TensorRole::kDraftHiddenNorm:
    case TensorRole::kDenseInputNorm:
    case TensorRole::kQueryDownNorm:
    case TensorRole::kLatentNorm:
    case TensorRole::kIndexKeyNorm:
      return true;
    default:
      return false;
  }
}

}  // namespace quire
