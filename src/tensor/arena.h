// The owner of large memory: one anonymous mapping, cut front to back, never resized. Sizes are
// planned before it is made, so running out is a bug.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace quire {

class Arena {
 public:
  static constexpr int64_t kAlignment = 64;

  // Maps `capacity_bytes` (zero is fine), asking for huge pages; pages come from the system when
  // first touched.
  static Result<Arena> create(int64_t capacity_bytes);
  // Takes over memory of `capacity_bytes` that `release(base, context)` gives back: a device's, or
  // pinned. Aligned to kAlignment; its content is the giver's business.
  using Release = void (*)(void* base, void* context);
  static Arena adopt(void* base, int64_t capacity_bytes, Release release, void* context = nullptr);
  // `capacity_bytes` of a file from `offset` (a multiple of the page size), read-only: for memory
  // that an earlier arena held. What is allocated from it is not zeroed and must not be written.
  static Result<Arena> map_file(int file_descriptor, int64_t offset, int64_t capacity_bytes);
  Arena() = default;
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;

  // Memory for `count` elements, aligned to kAlignment, valid as long as the arena; zeroed when the
  // arena was made by create(). CHECKs the capacity.
  template <typename T>
  T* allocate(int64_t count) {
    return static_cast<T*>(allocate_bytes(count * static_cast<int64_t>(sizeof(T))));
  }
  void* allocate_bytes(int64_t num_bytes);

  // Gives the pages of an arena that create() made back to the system: its content becomes zero,
  // and comes back from the system page by page when touched. Of other arenas nothing changes.
  void discard();
  // The same of the whole pages within `num_bytes` at `at`, which lie in this arena.
  void discard(const void* at, int64_t num_bytes);

  // What `num_bytes` takes of the capacity.
  static constexpr int64_t padded(int64_t num_bytes) {
    return (num_bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  const std::byte* data() const { return base_; }
  int64_t capacity_bytes() const { return capacity_bytes_; }
  int64_t used_bytes() const { return used_bytes_; }

 private:
  std::byte* base_ = nullptr;
  int64_t capacity_bytes_ = 0;
  int64_t used_bytes_ = 0;
  bool discardable_ = false;   // a mapping of create()
  Release release_ = nullptr;  // null: a mapping of this class
  void* release_context_ = nullptr;
};

}  // namespace quire
