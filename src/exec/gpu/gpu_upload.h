// GpuUpload copies host memory to a GPU while the host goes on: it gathers the bytes in pinned
// buffers, and the host fills one of them while the device reads the others.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/threads/thread_team.h"
#include "device/device.h"

namespace quire {

// One thread may use it. Borrows the device and the team, whose threads share the work of reading
// `from`. Where `from` maps a file, they read it from the file.
class GpuUpload {
 public:
  static constexpr int64_t kBufferBytes = int64_t{16} << 20;

  GpuUpload(Device& device, ThreadTeam& team, int64_t buffer_bytes = kBufferBytes)
      : device_(device), team_(team), buffer_bytes_(buffer_bytes) {}

  // Queues the copy; `from` has been read when copy() returns.
  void copy(void* to, const void* from, int64_t num_bytes);
  // Waits until everything is on the device, frees the buffers, and returns the first error of any
  // call.
  Status finish();

 private:
  struct Buffer {
    Arena memory;
    std::byte* data = nullptr;
    std::unique_ptr<Event> event;  // reached when the copies out of it are done
    bool is_copied = true;         // no copy was queued since the last wait
  };
  // Switches to the next buffer, once the device has read its earlier contents.
  Status take_buffer();
  void gather(std::byte* to, const std::byte* from, int64_t num_bytes);

  Device& device_;
  ThreadTeam& team_;
  int64_t buffer_bytes_;
  std::array<Buffer, 2> buffers_;
  size_t current_ = 0;
  int64_t used_bytes_ = 0;  // in the current buffer
  bool has_buffer_ = false;
  Status status_;
};

}  // namespace quire
