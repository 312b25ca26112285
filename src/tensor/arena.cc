#include "tensor/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace quire {

Result<Arena> Arena::create(int64_t capacity_bytes) {
  QUIRE_CHECK(capacity_bytes >= 0);
  Arena arena;
  arena.capacity_bytes_ = padded(capacity_bytes);
  if (arena.capacity_bytes_ == 0) return arena;
  void* base = mmap(nullptr, static_cast<size_t>(arena.capacity_bytes_), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return resource_exhausted("cannot map {} bytes of memory: {}", arena.capacity_bytes_,
                              std::strerror(errno));
  }
  madvise(base, static_cast<size_t>(arena.capacity_bytes_),
          MADV_HUGEPAGE);  // only advice, which may be refused
  arena.base_ = static_cast<std::byte*>(base);
  arena.discardable_ = true;
  return arena;
}

void Arena::discard() {
  if (discardable_) madvise(base_, static_cast<size_t>(capacity_bytes_), MADV_DONTNEED);
}

void Arena::discard(const void* at, int64_t num_bytes) {
  if (!discardable_) return;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(at) + page - 1) / page * page;
  const auto end =
      (reinterpret_cast<uintptr_t>(at) + static_cast<uintptr_t>(num_bytes)) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);  // NOLINT
}

Arena Arena::adopt(void* base, int64_t capacity_bytes, Release release, void* context) {
  QUIRE_CHECK(reinterpret_cast<uintptr_t>(base) % kAlignment == 0 && release != nullptr);
  Arena arena;
  arena.base_ = static_cast<std::byte*>(base);
  arena.capacity_bytes_ = capacity_bytes / kAlignment * kAlignment;
  arena.release_ = release;
  arena.release_context_ = context;
  return arena;
}

Result<Arena> Arena::map_file(int file_descriptor, int64_t offset, int64_t capacity_bytes) {
  QUIRE_CHECK(capacity_bytes > 0 && padded(capacity_bytes) == capacity_bytes);
  void* base = mmap(nullptr, static_cast<size_t>(capacity_bytes), PROT_READ, MAP_PRIVATE,
                    file_descriptor, offset);
  if (base == MAP_FAILED) {
    return resource_exhausted("cannot map {} bytes of a file: {}", capacity_bytes,
                              std::strerror(errno));
  }
  madvise(base, static_cast<size_t>(capacity_bytes), MADV_WILLNEED);
  Arena arena;
  arena.base_ = static_cast<std::byte*>(base);
  arena.capacity_bytes_ = capacity_bytes;
  return arena;
}

Arena::~Arena() {
  if (base_ == nullptr) return;
  if (release_ != nullptr) {
    release_(base_, release_context_);
  } else {
    munmap(base_, static_cast<size_t>(capacity_bytes_));
  }
}

Arena::Arena(Arena&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      capacity_bytes_(std::exchange(other.capacity_bytes_, 0)),
      used_bytes_(std::exchange(other.used_bytes_, 0)),
      discardable_(std::exchange(other.discardable_, false)),
      release_(std::exchange(other.release_, nullptr)),
      release_context_(std::exchange(other.release_context_, nullptr)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(capacity_bytes_, other.capacity_bytes_);
  std::swap(used_bytes_, other.used_bytes_);
  std::swap(discardable_, other.discardable_);
  std::swap(release_, other.release_);
  std::swap(release_context_, other.release_context_);
  return *this;
}

void* Arena::allocate_bytes(int64_t num_bytes) {
  QUIRE_CHECK(num_bytes >= 0 && padded(num_bytes) <= capacity_bytes_ - used_bytes_,
              "arena of {} bytes, {} used, asked for {}", capacity_bytes_, used_bytes_, num_bytes);
  void* memory = base_ + used_bytes_;
  used_bytes_ += padded(num_bytes);
  return memory;
}

}  // namespace quire
