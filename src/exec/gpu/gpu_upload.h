// Host memory to a GPU while the host goes on: what is to be copied is gathered in pinned buffers,
// one of which the host fills while the device reads the others.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/threads/thread_team.h"
#include "device/device.h"

namespace quire {

// One thread; borrows the device and the team, whose threads share the reading of `from` (memory
// that maps a file is read from the file then).
class GpuUpload {
 public:
  static constexpr int64_t kBufferBytes = int64_t{16} << 20;

  GpuUpload(Device& device, ThreadTeam& team, int64_t buffer_bytes = kBufferBytes)
      : device_(device), team_(team), buffer_bytes_(buffer_bytes) {}

  // Queues the copy; `from` has been read when it returns.
  void copy(void* to, const void* from, int64_t num_bytes);
  // Waits until everything is on the device, gives the buffers back, and returns the first error of
  // any call.
  Status finish();

 private:
  struct Buffer {
    Arena memory;
    std::byte* data = nullptr;
    std::unique_ptr<Event> event;  // of the copies out of it
    bool is_copied = true;         // nothing was queued since the last wait
  };
  // Goes on with the next buffer, when the device has read what was in it.
  Status take_buffer();
  void gather(std::byte* to, const std::byte* from, int64_t num_bytes);

  Device& device_;
  ThreadTeam& team_;
  int64_t buffer_bytes_;
  std::array<Buffer, 2> buffers_;
  size_t current_ = 0;
  int64_t used_bytes_ = 0;  // of the current buffer
  bool has_buffer_ = false;
  Status status_;
};

}  // namespace quire
