#include "exec/gpu/gpu_logits.h"

#include <algorithm>

namespace quire {

GpuLogits::GpuLogits(const Shape& shape, Device& device, Decoder& decoder, const Memory& memory)
    : device_(device),
      decoder_(decoder),
      vocab_size_(shape.vocab_size),
      size_(shape.max_rows * shape.vocab_size),
      on_device_(memory.on_device),
      rows_on_device_(memory.rows.allocate<int32_t>(shape.max_rows)),
      pinned_rows_(memory.pinned_rows.allocate<int32_t>(shape.max_rows)),
      on_host_(memory.pinned_values.allocate<float>(size_)) {}

Status GpuLogits::compute(std::span<const int32_t> tokens) {
  const auto count = static_cast<int64_t>(tokens.size());
  std::copy(tokens.begin(), tokens.end(), pinned_rows_);
  device_.copy_to_device(rows_on_device_, pinned_rows_, count * 4);
  decoder_.head().logits({rows_on_device_, tokens.size()}, on_device_);
  device_.copy_to_host(on_host_, on_device_, count * vocab_size_ * 4);
  return device_.synchronize();
}

}  // namespace quire
