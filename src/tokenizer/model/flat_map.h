// FlatMap64 is a hash table from 64-bit keys to 64-bit values in one array. Keys are inserted while
// loading, and only looked up afterwards.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace quire {

// The key ~0 stands for an empty slot and cannot be stored. Many threads may read the table once it
// is built.
class FlatMap64 {
 public:
  static constexpr uint64_t kNone = ~uint64_t{0};

  void reserve(size_t count) {
    const size_t wanted = std::bit_ceil(count * 2 + 16);
    if (wanted > slots_.size()) rehash(wanted);
  }

  // Inserts a value, or replaces the value of a key that is present.
  void insert_or_assign(uint64_t key, uint64_t value) {
    reserve(size_ + 1);
    Slot& slot = slots_[find_slot(key)];
    if (slot.key == kNone) ++size_;
    slot = {key, value};
  }

  // Returns the value, or kNone if the key is absent.
  uint64_t find(uint64_t key) const {
    if (slots_.empty()) return kNone;
    const Slot& slot = slots_[find_slot(key)];
    return slot.key == key ? slot.value : kNone;
  }

  size_t size() const { return size_; }

 private:
  struct Slot {
    uint64_t key = kNone;
    uint64_t value = kNone;
  };

  size_t find_slot(uint64_t key) const {
    const size_t mask = slots_.size() - 1;
    size_t i = static_cast<size_t>((key * 0x9E3779B97F4A7C15u) >> shift_);
    while (slots_[i].key != key && slots_[i].key != kNone) i = (i + 1) & mask;
    return i;
  }

  void rehash(size_t capacity) {
    std::vector<Slot> old(capacity);
    old.swap(slots_);
    shift_ = 64 - std::countr_zero(capacity);
    for (const Slot& slot : old) {
      if (slot.key != kNone) slots_[find_slot(slot.key)] = slot;
    }
  }

  std::vector<Slot> slots_;
  size_t size_ = 0;
  int shift_ = 63;
};

}  // namespace quire
