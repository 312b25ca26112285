// A RowTransfer moves rows of floats between the host and the device where kernels run. On a CPU
// both are the same memory, and nothing is moved.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "device/device.h"
#include "tensor/arena.h"

namespace quire {

// One thread may use it.
class RowTransfer {
 public:
  RowTransfer() = default;  // for a CPU
  // For a GPU: moves up to `num_floats` at a time. Borrows the device.
  RowTransfer(Device& device, Arena& pinned, int64_t num_floats)
      : device_(&device), on_host_(pinned.allocate<float>(num_floats)) {}
  static int64_t pinned_bytes(int64_t num_floats) { return Arena::padded(num_floats * 4); }

  // Queues a copy of rows[first, first + count) to the host.
  void fetch(const float* rows, int64_t first, int64_t count) {
    if (device_ == nullptr || count == 0) return;
    device_->copy_to_host(on_host_ + first, rows + first, count * 4);
  }
  // Waits for the rows that fetch() queued, and returns the host's copy, in which they lie at the
  // same offsets. The copy is valid until the next fetch() or send().
  Result<float*> fetched(float* rows) {
    if (device_ == nullptr) return rows;
    QUIRE_RETURN_IF_ERROR(device_->synchronize());
    return on_host_;
  }

  // Returns host memory to fill before send(), which queues a copy of it to `rows`. The device must
  // be done with the copy out of the memory that the last staged() returned.
  float* staged(float* rows) const { return device_ == nullptr ? rows : on_host_; }
  void send(float* rows, int64_t count) {
    if (device_ != nullptr) device_->copy_to_device(rows, on_host_, count * 4);
  }

 private:
  Device* device_ = nullptr;
  float* on_host_ = nullptr;  // pinned
};

}  // namespace quire
