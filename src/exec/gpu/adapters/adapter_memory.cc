#include "exec/gpu/adapters/adapter_memory.h"

#include <algorithm>

#include "tensor/arena.h"

namespace quire {

AdapterMemory::AdapterMemory(int32_t num_slots, int64_t num_bytes) {
  for (int32_t slot = num_slots; slot-- > 0;) free_slots_.push_back(slot);
  if (num_bytes > 0) free_.emplace(0, num_bytes);
}

std::optional<AdapterMemory::Place> AdapterMemory::take(int64_t num_bytes) {
  const int64_t size = Arena::padded(num_bytes);
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(free_.begin(), free_.end(), [size](const auto& piece) {
    return piece.second - piece.first >= size;
  });
  if (free_slots_.empty() || found == free_.end()) return std::nullopt;
  const auto [begin, end] = *found;
  free_.erase(found);
  if (begin + size < end) free_.emplace(begin + size, end);
  const Place place{.slot = free_slots_.back(), .offset = begin, .num_bytes = size};
  free_slots_.pop_back();
  return place;
}

void AdapterMemory::give_back(const Place& place) {
  const std::lock_guard lock(mutex_);
  free_slots_.push_back(place.slot);
  if (place.num_bytes == 0) return;
  int64_t begin = place.offset, end = place.offset + place.num_bytes;
  auto behind = free_.lower_bound(begin);
  if (behind != free_.begin() && std::prev(behind)->second == begin) {
    begin = std::prev(behind)->first;
    free_.erase(std::prev(behind));
  }
  if (behind != free_.end() && behind->first == end) {
    end = behind->second;
    free_.erase(behind);
  }
  free_.emplace(begin, end);
}

int64_t AdapterMemory::largest_free_bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t largest = 0;
  for (const auto& [begin, end] : free_) largest = std::max(largest, end - begin);
  return largest;
}

}  // namespace quire
