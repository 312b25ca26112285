#include "tokenizer/stages/charsmap.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace quire {
namespace {

constexpr size_t kMaxReplacementBytes = 1024;

// A unit of the double array (Darts-clone) has this layout: bit 31 marks a value, bits 10 and up
// hold the offset (shifted by 8 more if bit 9 is set), bit 8 says that the node has a value, and
// the low byte is the label.
uint32_t unit_offset(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
uint32_t unit_label(uint32_t unit) { return unit & ((1u << 31) | 0xFF); }
bool unit_has_leaf(uint32_t unit) { return ((unit >> 8) & 1) == 1; }
uint32_t unit_value(uint32_t unit) { return unit & ((1u << 31) - 1); }

}  // namespace

Result<Charsmap> Charsmap::parse(std::string_view blob) {
  static_assert(std::endian::native == std::endian::little);
  if (blob.size() < 4) {
    return data_loss("precompiled charsmap: expected at least 4 bytes, got {}", blob.size());
  }
  uint32_t trie_bytes = 0;
  std::memcpy(&trie_bytes, blob.data(), 4);
  if (trie_bytes % 4 != 0 || trie_bytes > blob.size() - 4) {
    return data_loss("precompiled charsmap: a trie of {} bytes does not fit {} bytes", trie_bytes,
                     blob.size() - 4);
  }
  Charsmap map;
  map.units_.resize(trie_bytes / 4);
  if (trie_bytes > 0) std::memcpy(map.units_.data(), blob.data() + 4, trie_bytes);
  map.strings_ = blob.substr(4 + trie_bytes);
  for (size_t begin = 0; begin < map.strings_.size();) {
    const size_t size = map.replacement_at(static_cast<uint32_t>(begin)).size();
    map.max_replacement_bytes_ = std::max(map.max_replacement_bytes_, size);
    begin += size + 1;
  }
  if (map.max_replacement_bytes_ > kMaxReplacementBytes) {
    return data_loss("precompiled charsmap: expected replacements of at most {} bytes, got {}",
                     kMaxReplacementBytes, map.max_replacement_bytes_);
  }
  return map;
}

std::optional<Charsmap::Match> Charsmap::prefix(std::string_view text, bool stop_at_first) const {
  std::optional<Match> best;
  if (units_.empty()) return best;
  uint32_t node = unit_offset(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (node >= units_.size() || unit_label(units_[node]) != byte) break;
    const uint32_t unit = units_[node];
    node ^= unit_offset(unit);
    if (!unit_has_leaf(unit)) continue;
    if (node >= units_.size()) break;
    best = Match{i + 1, replacement_at(unit_value(units_[node]))};
    if (stop_at_first) break;
  }
  return best;
}

std::string_view Charsmap::replacement_at(uint32_t offset) const {
  if (offset >= strings_.size()) return {};
  const std::string_view rest = std::string_view(strings_).substr(offset);
  return rest.substr(0, rest.find('\0'));
}

}  // namespace quire
