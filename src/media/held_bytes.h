// HeldBytes is one request's share of the bytes that all requests hold together.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace quire {

// The destructor gives the bytes back, so a HeldBytes is shared by the items that use the memory.
class HeldBytes {
 public:
  explicit HeldBytes(std::shared_ptr<std::atomic<int64_t>> count) : count_(std::move(count)) {}
  HeldBytes(const HeldBytes&) = delete;
  HeldBytes& operator=(const HeldBytes&) = delete;
  ~HeldBytes() { count_->fetch_sub(bytes_); }

  // Adds `bytes` to the count and returns the new total. Must be called only once.
  int64_t take(int64_t bytes) {
    bytes_ = bytes;
    return count_->fetch_add(bytes) + bytes;
  }

 private:
  std::shared_ptr<std::atomic<int64_t>> count_;
  int64_t bytes_ = 0;
};

}  // namespace quire
