// AdapterMemory allocates the slots and the device memory of adapters, out of a fixed number and a
// fixed size.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace quire {

// Any thread may call it.
class AdapterMemory {
 public:
  struct Place {
    int32_t slot = 0;
    int64_t offset = 0;  // in bytes; a multiple of Arena::kAlignment
    int64_t num_bytes = 0;
  };
  AdapterMemory(int32_t num_slots, int64_t num_bytes);

  // Takes a free slot and the first piece that is large enough; returns nothing if either is
  // missing.
  std::optional<Place> take(int64_t num_bytes);
  void give_back(const Place& place);
  // Returns the size of the largest piece that take() would find.
  int64_t largest_free_bytes() const;

 private:
  mutable std::mutex mutex_;
  std::vector<int32_t> free_slots_;
  std::map<int64_t, int64_t> free_;  // start and end of each free piece; no two touch
};

}  // namespace quire
