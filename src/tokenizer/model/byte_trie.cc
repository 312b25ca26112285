#include "tokenizer/model/byte_trie.h"

#include "base/check.h"

namespace quire {

void ByteTrie::insert(std::string_view key, uint32_t value) {
  QUIRE_CHECK(!key.empty() && value != kNoValue);
  uint64_t node = 0;
  for (size_t i = 0; i < key.size(); ++i) {
    const auto byte = static_cast<unsigned char>(key[i]);
    uint64_t edge = i == 0 ? root_[byte] : edges_.find(node << 8 | byte);
    if (edge == 0 || edge == FlatMap64::kNone) edge = (num_nodes_++ << 32) | kNoValue;
    if (i + 1 == key.size()) edge = (edge >> 32 << 32) | value;
    if (i == 0) {
      root_[byte] = edge;
    } else {
      edges_.insert_or_assign(node << 8 | byte, edge);
    }
    node = edge >> 32;
  }
}

}  // namespace quire
