#include "exec/gpu/gpu_token_counts.h"

#include <algorithm>

#include "base/check.h"

namespace quire {
namespace {

constexpr int64_t kCountBytes = int64_t{256} << 20;  // further requests are sampled by the host
constexpr int64_t kStagedTokens = int64_t{1} << 17;  // tokens per copy

}  // namespace

int64_t GpuTokenCounts::Shape::num_slots() const {
  return std::clamp<int64_t>(kCountBytes / (vocab_size * 4), 1, max_requests);
}

int64_t GpuTokenCounts::device_bytes(const Shape& shape) {
  return Arena::padded(shape.num_slots() * shape.vocab_size * 4) + Arena::padded(kStagedTokens * 4);
}

int64_t GpuTokenCounts::pinned_bytes(int32_t num_staged) {
  return num_staged * Arena::padded(kStagedTokens * 4);
}

GpuTokenCounts::GpuTokenCounts(const Shape& shape, Device& device, Arena& device_memory,
                               Arena& pinned)
    : shape_(shape),
      device_(device),
      counts_(device_memory.allocate<uint32_t>(shape.num_slots() * shape.vocab_size)),
      ids_on_device_(device_memory.allocate<TokenId>(kStagedTokens)) {
  for (int32_t i = 0; i < shape.num_staged; ++i)
    staging_.push_back(pinned.allocate<TokenId>(kStagedTokens));
  for (int64_t i = shape.num_slots(); i-- > 0;) free_slots_.push_back(static_cast<int32_t>(i));
}

void GpuTokenCounts::apply(const StepPlan& plan) {
  const auto release = [&](RequestId id) {
    const auto it = slots_.find(id);
    if (it == slots_.end()) return;
    free_slots_.push_back(it->second.index);
    slots_.erase(it);
  };
  for (const RequestId id : plan.dropped) release(id);
  for (const NewRequest& request : plan.new_requests) release(request.id);
}

int32_t GpuTokenCounts::slot(RequestId id) {
  const auto it = slots_.find(id);
  if (it != slots_.end()) return it->second.index;
  if (free_slots_.empty()) return -1;
  const int32_t index = free_slots_.back();
  free_slots_.pop_back();
  slots_[id] = {.index = index};
  device_.set_zero(counts_ + index * shape_.vocab_size, shape_.vocab_size * 4);
  return index;
}

void GpuTokenCounts::begin_step(size_t turn) {
  turn_ = turn;
  num_ids_ = 0;
}

Status GpuTokenCounts::send(const Slot& slot, const TokenId* ids, int64_t count, bool in_prompt) {
  while (count > 0) {
    if (num_ids_ == kStagedTokens) {  // rare: long prompts that start to sample in the same step
      QUIRE_RETURN_IF_ERROR(device_.synchronize());
      num_ids_ = 0;
    }
    const int64_t part = std::min(count, kStagedTokens - num_ids_);
    TokenId* staged = staging_[turn_] + num_ids_;
    std::copy_n(ids, part, staged);
    device_.copy_to_device(ids_on_device_ + num_ids_, staged, part * 4);
    count_tokens(device_.stream(), {.token_counts = counts_,
                                    .slot = slot.index,
                                    .token_ids = ids_on_device_ + num_ids_,
                                    .num_tokens = part,
                                    .vocab_size = shape_.vocab_size,
                                    .in_prompt = in_prompt});
    num_ids_ += part;
    ids += part;
    count -= part;
  }
  return {};
}

Status GpuTokenCounts::count_known(const RequestState& state, int32_t position) {
  Slot& slot = slots_.at(state.id);
  const auto known = std::min<int32_t>(position, static_cast<int32_t>(state.token_ids.size()));
  const int32_t prompt_end = std::clamp(state.num_prompt_tokens, slot.num_counted, known);
  if (slot.num_counted < known) {
    const TokenId* ids = state.token_ids.data();
    QUIRE_RETURN_IF_ERROR(send(slot, ids + slot.num_counted, prompt_end - slot.num_counted, true));
    QUIRE_RETURN_IF_ERROR(send(slot, ids + prompt_end, known - prompt_end, false));
    slot.num_counted = known;
  }
  QUIRE_CHECK(slot.num_counted == position, "request {}: {} tokens counted of {}", state.id,
              slot.num_counted, position);
  return {};
}

void GpuTokenCounts::counted_on_device(RequestId id, int32_t position) {
  slots_.at(id).num_counted = position + 1;
}

}  // namespace quire
