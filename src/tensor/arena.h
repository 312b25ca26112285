// An Arena owns a large region of memory: one anonymous mapping, allocated front to back and never
// resized. Sizes are planned before it is created, so running out is a bug.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace quire {

class Arena {
 public:
  static constexpr int64_t kAlignment = 64;

  // Maps `capacity_bytes` (zero is allowed) and asks for huge pages. The system provides pages when
  // they are first touched.
  static Result<Arena> create(int64_t capacity_bytes);
  // Takes over `capacity_bytes` of memory, such as device memory or pinned memory, which
  // `release(base, context)` frees. The base is aligned to kAlignment; the caller decides what the
  // memory contains.
  using Release = void (*)(void* base, void* context);
  static Arena adopt(void* base, int64_t capacity_bytes, Release release, void* context = nullptr);
  // Maps `capacity_bytes` of a file from `offset` (a multiple of the page size), read-only. The
  // file holds what an earlier arena contained. Allocations are not zeroed and must not be written.
  static Result<Arena> map_file(int file_descriptor, int64_t offset, int64_t capacity_bytes);
  Arena() = default;
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;

  // Returns memory for `count` elements, aligned to kAlignment and valid as long as the arena. It
  // is zeroed if create() made the arena. CHECKs that the capacity suffices.
  template <typename T>
  T* allocate(int64_t count) {
    return static_cast<T*>(allocate_bytes(count * static_cast<int64_t>(sizeof(T))));
  }
  void* allocate_bytes(int64_t num_bytes);

  // Returns the pages of an arena that create() made to the system: the content becomes zero, and
  // pages are provided again when touched. Does nothing for other arenas.
  void discard();
  // Does the same for the whole pages within the `num_bytes` at `at`, which must lie in this arena.
  void discard(const void* at, int64_t num_bytes);

  // Returns how much of the capacity an allocation of `num_bytes` takes.
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
  bool discardable_ = false;   // create() made the mapping
  Release release_ = nullptr;  // null: this class made the mapping
  void* release_context_ = nullptr;
};

}  // namespace quire
