#include "exec/gpu/gpu_upload.h"

#include <algorithm>
#include <cstring>

namespace quire {

Status GpuUpload::take_buffer() {
  if (has_buffer_) {
    buffers_[current_].event->record();
    buffers_[current_].is_copied = false;
    current_ = (current_ + 1) % buffers_.size();
  }
  Buffer& buffer = buffers_[current_];
  if (buffer.data == nullptr) {
    QUIRE_ASSIGN_OR_RETURN(buffer.memory, device_.allocate_pinned(buffer_bytes_));
    buffer.data = static_cast<std::byte*>(buffer.memory.allocate_bytes(buffer_bytes_));
    QUIRE_ASSIGN_OR_RETURN(buffer.event, device_.make_event());
  }
  if (!buffer.is_copied) QUIRE_RETURN_IF_ERROR(buffer.event->wait());
  buffer.is_copied = true;
  has_buffer_ = true;
  used_bytes_ = 0;
  return {};
}

void GpuUpload::gather(std::byte* to, const std::byte* from, int64_t num_bytes) {
  constexpr int64_t kPageBytes = 4096;
  constexpr int64_t kLeastShared = int64_t{1} << 20;  // a smaller copy is not worth waking threads
  if (num_bytes < kLeastShared) {
    std::memcpy(to, from, static_cast<size_t>(num_bytes));
    return;
  }
  team_.run([&](int thread) {
    const WorkRange mine = split_work(num_bytes, kPageBytes, thread, team_.size());
    std::memcpy(to + mine.begin, from + mine.begin, static_cast<size_t>(mine.end - mine.begin));
  });
}

void GpuUpload::copy(void* to, const void* from, int64_t num_bytes) {
  auto* device = static_cast<std::byte*>(to);
  const auto* host = static_cast<const std::byte*>(from);
  while (num_bytes > 0 && status_.ok()) {
    if (!has_buffer_ || used_bytes_ == buffer_bytes_) {
      status_ = take_buffer();
      continue;
    }
    const int64_t count = std::min(num_bytes, buffer_bytes_ - used_bytes_);
    std::byte* staged = buffers_[current_].data + used_bytes_;
    gather(staged, host, count);
    device_.copy_to_device(device, staged, count);
    used_bytes_ += count;
    device += count;
    host += count;
    num_bytes -= count;
  }
}

Status GpuUpload::finish() {
  const Status copied = device_.synchronize();
  buffers_ = {};
  has_buffer_ = false;
  return status_.ok() ? copied : status_;
}

}  // namespace quire
