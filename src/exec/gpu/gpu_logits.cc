#include "exec/gpu/gpu_logits.h"

#include <algorithm>

#include "nn/drafting/draft_vocab.h"

namespace quire {

GpuLogits::GpuLogits(const Shape& shape, Device& device, Decoder& decoder, const Memory& memory)
    : device_(device),
      decoder_(decoder),
      shape_(shape),
      on_device_(memory.on_device),
      rows_on_device_(memory.rows.allocate<int32_t>(shape.max_rows)),
      pinned_rows_(memory.pinned_rows.allocate<int32_t>(shape.max_rows)),
      computed_(memory.pinned_values.allocate<float>(shape.max_rows * shape.num_logits()),
                static_cast<size_t>(shape.max_rows * shape.num_logits())) {
  if (!shape.token_map.empty())
    expanded_.resize(static_cast<size_t>(shape.max_rows * shape.vocab_size));
}

Status GpuLogits::compute(std::span<const int32_t> tokens) {
  const auto count = static_cast<int64_t>(tokens.size());
  std::copy(tokens.begin(), tokens.end(), pinned_rows_);
  device_.copy_to_device(rows_on_device_, pinned_rows_, count * 4);
  decoder_.head().logits({rows_on_device_, tokens.size()}, on_device_);
  device_.copy_to_host(computed_.data(), on_device_, count * shape_.num_logits() * 4);
  QUIRE_RETURN_IF_ERROR(device_.synchronize());
  if (expanded_.empty()) return {};
  const auto vocab_size = static_cast<size_t>(shape_.vocab_size);
  expand_logits(shape_.token_map, computed_.data(),
                std::span(expanded_).first(tokens.size() * vocab_size), vocab_size);
  return {};
}

}  // namespace quire
