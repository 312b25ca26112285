// BodyCharge counts the bytes of a connection's request body in the total that all bodies of a
// server share.
#pragma once

#include <atomic>
#include <cstdint>

namespace quire::server {

class BodyCharge {
 public:
  // `total` must outlive this object.
  explicit BodyCharge(std::atomic<uint64_t>& total) : total_(total) {}
  BodyCharge(const BodyCharge&) = delete;
  BodyCharge& operator=(const BodyCharge&) = delete;
  ~BodyCharge() { release(); }

  // Says that the body has grown to this many bytes.
  void grow_to(uint64_t num_bytes) {
    if (num_bytes <= num_bytes_) return;
    total_.fetch_add(num_bytes - num_bytes_, std::memory_order_relaxed);
    num_bytes_ = num_bytes;
  }
  void release() {
    total_.fetch_sub(num_bytes_, std::memory_order_relaxed);
    num_bytes_ = 0;
  }
  uint64_t num_bytes() const { return num_bytes_; }

 private:
  std::atomic<uint64_t>& total_;
  uint64_t num_bytes_ = 0;
};

}  // namespace quire::server
