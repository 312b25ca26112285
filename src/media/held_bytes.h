// A share of a count of bytes that many requests hold together.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace quire {

// Gives its bytes back when the last item that has it is gone.
class HeldBytes {
 public:
  explicit HeldBytes(std::shared_ptr<std::atomic<int64_t>> count) : count_(std::move(count)) {}
  HeldBytes(const HeldBytes&) = delete;
  HeldBytes& operator=(const HeldBytes&) = delete;
  ~HeldBytes() { count_->fetch_sub(bytes_); }

  // Once. How many are held now.
  int64_t take(int64_t bytes) {
    bytes_ = bytes;
    return count_->fetch_add(bytes) + bytes;
  }

 private:
  std::shared_ptr<std::atomic<int64_t>> count_;
  int64_t bytes_ = 0;
};

}  // namespace quire
