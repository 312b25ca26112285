#include "tokenizer/model/vocab.h"

#include <bit>
#include <functional>

namespace quire {

void Vocab::reserve(size_t count, size_t bytes) {
  spans_.reserve(count);
  bytes_->reserve(bytes);
  const size_t wanted = std::bit_ceil(count * 2 + 16);
  if (wanted > slots_.size()) rehash(wanted);
}

Status Vocab::add(std::string_view piece, int64_t id) {
  if (id < 0 || id >= kMaxSize) {
    return invalid_argument("vocabulary: expected ids in [0, {}), got {} for a piece of {} bytes",
                            kMaxSize, id, piece.size());
  }
  if (contains(static_cast<TokenId>(id))) {
    if (this->piece(static_cast<TokenId>(id)) == piece) return Status();
    return invalid_argument("vocabulary: id {} is given to two different pieces", id);
  }
  if (piece.size() >= kAbsent) return invalid_argument("vocabulary: a piece is too long");
  if (static_cast<size_t>(id) >= spans_.size()) spans_.resize(static_cast<size_t>(id) + 1);
  spans_[static_cast<size_t>(id)] = {bytes_->size(), static_cast<uint32_t>(piece.size())};
  bytes_->append(piece);
  if ((num_used_ + 1) * 2 > slots_.size()) rehash(std::bit_ceil((num_used_ + 1) * 4));
  int32_t& slot = slots_[find_slot(piece)];
  if (slot < 0) ++num_used_;
  slot = static_cast<int32_t>(id);
  return Status();
}

std::optional<TokenId> Vocab::find(std::string_view piece) const {
  if (slots_.empty()) return std::nullopt;
  const int32_t id = slots_[find_slot(piece)];
  if (id < 0) return std::nullopt;
  return id;
}

size_t Vocab::find_slot(std::string_view piece) const {
  const size_t mask = slots_.size() - 1;
  size_t i = std::hash<std::string_view>{}(piece)&mask;
  while (slots_[i] >= 0 && this->piece(slots_[i]) != piece) i = (i + 1) & mask;
  return i;
}

void Vocab::rehash(size_t capacity) {
  const std::vector<int32_t> old = std::move(slots_);
  slots_.assign(capacity, -1);
  for (const int32_t id : old) {
    if (id >= 0) slots_[find_slot(piece(id))] = id;
  }
}

}  // namespace quire
