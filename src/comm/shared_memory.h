// SharedMemory is memory that processes of one machine share: an unnamed file, which others open
// through the process that made it. Nothing is left behind when a process is killed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace quire {

// What a process tells others about its memory. A mark in the memory tells it apart from memory to
// which the same numbers refer on another machine.
struct SharedMemoryOffer {
  uint64_t mark = 0;
  int64_t num_bytes = 0;
  int32_t process = 0;  // 0: nothing is offered
  int32_t file_descriptor = -1;
};

// Owns the mapping and the file. Any thread may call it.
class SharedMemory {
 public:
  // Returns memory of zeros. kResourceExhausted: the system does not have that much.
  static Result<SharedMemory> create(int64_t num_bytes);
  // Maps the memory that another process offers. kNotFound: it was made on another machine, in
  // another container or by another user. kResourceExhausted: it cannot be mapped.
  static Result<SharedMemory> open(const SharedMemoryOffer& offer);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory() { release(); }

  std::span<std::byte> bytes() const { return {data_, static_cast<size_t>(offer_.num_bytes)}; }
  int file_descriptor() const { return fd_; }
  // Returns what open() takes. It is valid while this object of the process that made it lives.
  const SharedMemoryOffer& offer() const { return offer_; }

 private:
  SharedMemory() = default;
  Status map();
  void release();

  SharedMemoryOffer offer_;
  int fd_ = -1;
  std::byte* data_ = nullptr;
};

}  // namespace quire
