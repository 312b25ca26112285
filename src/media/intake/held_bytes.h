// These count the memory that the media of all unfinished requests take.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/result.h"

namespace quire {

// HeldBytes is one request's share of the bytes that all requests hold together. The destructor
// gives them back, so it is shared by the items that use the memory.
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

// A decoder calls this with the bytes that a file takes once it is decoded, before it allocates them.
// An error ends the decoding.
using ReserveBytes = std::function<Status(int64_t)>;

// MediaMemory bounds what requests hold, and what is decoded at the same time. What a file takes
// until it has its final form comes on top of what is held, but only as much as one file of the
// largest size: so every file can be decoded, but not many large ones at once. Any thread may use
// it.
class MediaMemory {
 public:
  // `what` names the media in errors: "images".
  MediaMemory(std::string what, int64_t max_held_bytes, int64_t max_decoded_bytes)
      : what_(std::move(what)),
        max_held_bytes_(max_held_bytes),
        max_decoded_bytes_(max_decoded_bytes) {}

  // Counts bytes that are about to be decoded; they count until `lease`, an empty pointer, is
  // reset. Returns kResourceExhausted if other requests leave too little memory.
  Status decode(int64_t bytes, std::unique_ptr<HeldBytes>& lease) const {
    lease = std::make_unique<HeldBytes>(decoded_);
    const int64_t total = lease->take(bytes) + held_->load();
    return total - max_decoded_bytes_ > max_held_bytes_ ? refuse(total) : Status();
  }

  // Returns a share of nothing, for hold().
  std::shared_ptr<HeldBytes> lease() const { return std::make_shared<HeldBytes>(held_); }
  // Must be called only once for each lease. Returns kResourceExhausted if other requests hold too
  // much.
  Status hold(int64_t bytes, HeldBytes& lease) const {
    const int64_t total = lease.take(bytes);
    return total > max_held_bytes_ ? refuse(total) : Status();
  }

 private:
  Status refuse(int64_t total) const {
    return resource_exhausted("{} of requests take {} bytes, at most {} may be held at once", what_,
                              total, max_held_bytes_);
  }

  const std::string what_;
  const int64_t max_held_bytes_;
  const int64_t max_decoded_bytes_;
  const std::shared_ptr<std::atomic<int64_t>> held_ = std::make_shared<std::atomic<int64_t>>(0);
  const std::shared_ptr<std::atomic<int64_t>> decoded_ = std::make_shared<std::atomic<int64_t>>(0);
};

}  // namespace quire
