#include "exec/gpu/gpu_step_inputs.h"

#include <algorithm>

namespace quire {
namespace {

// The bytes of the requests, the entries of block tables and the token ids, which one copy sends.
int64_t diff_bytes(int64_t num_requests, int64_t num_entries, int64_t num_tokens) {
  return num_requests * static_cast<int64_t>(sizeof(StepRequest)) +
         num_entries * static_cast<int64_t>(sizeof(BlockEntry)) +
         num_tokens * static_cast<int64_t>(sizeof(TokenId));
}

int64_t max_diff_bytes(const GpuStepInputs::Shape& shape) {
  return Arena::padded(
      diff_bytes(shape.limits.max_reqs, shape.num_table_entries(), shape.limits.max_tokens));
}

// Returns whether the update is one of attention blocks, whose tables the device stores.
bool is_entry(const BlockTableUpdate& update, const GpuStepInputs::Shape& shape) {
  return update.group < shape.num_groups;
}
int64_t count_entries(const StepPlan& plan, const GpuStepInputs::Shape& shape) {
  return std::count_if(plan.block_updates.begin(), plan.block_updates.end(),
                       [&](const BlockTableUpdate& update) { return is_entry(update, shape); });
}

}  // namespace

int64_t GpuStepInputs::device_bytes(const Shape& shape) {
  const int64_t tokens = shape.limits.max_tokens;
  const int64_t reqs = shape.limits.max_reqs;
  return max_diff_bytes(shape) + 2 * Arena::padded(shape.num_table_entries() * 4) +
         2 * Arena::padded(tokens * 4) + Arena::padded((reqs + 1) * 4) +
         2 * Arena::padded(reqs * 4) + Arena::padded(shape.num_groups * tokens * 8) +
         Arena::padded(shape.num_segment_entries() * 4);
}

int64_t GpuStepInputs::pinned_bytes(const Shape& shape) {
  return shape.num_staged *
         (max_diff_bytes(shape) + Arena::padded(shape.num_segment_entries() * 4));
}

GpuStepInputs::GpuStepInputs(const Shape& shape, Device& device, Arena& device_memory,
                             Arena& pinned)
    : shape_(shape), device_(device) {
  const int64_t tokens = shape.limits.max_tokens;
  const int64_t reqs = shape.limits.max_reqs;
  for (int64_t slot = reqs; slot-- > 0;) free_slots_.push_back(static_cast<int32_t>(slot));
  for (int32_t i = 0; i < shape.num_staged; ++i)
    staging_.push_back(static_cast<std::byte*>(pinned.allocate_bytes(max_diff_bytes(shape))));
  diff_ = static_cast<std::byte*>(device_memory.allocate_bytes(max_diff_bytes(shape)));
  for (int32_t i = 0; i < shape.num_staged; ++i)
    staged_segments_.push_back(pinned.allocate<int32_t>(shape.num_segment_entries()));
  segments_ = device_memory.allocate<int32_t>(shape.num_segment_entries());
  last_tokens_ = device_memory.allocate<TokenId>(reqs);
  params_ = {.block_size = shape.block_size,
             .num_groups = shape.num_groups,
             .num_slots = static_cast<int32_t>(reqs),
             .max_blocks = shape.max_blocks(),
             .max_tokens = tokens,
             .tables = device_memory.allocate<int32_t>(shape.num_table_entries()),
             .last_tokens = last_tokens_,
             .input_ids = device_memory.allocate<TokenId>(tokens),
             .positions = device_memory.allocate<int32_t>(tokens),
             .query_start_loc = device_memory.allocate<int32_t>(reqs + 1),
             .seq_lens = device_memory.allocate<int32_t>(reqs),
             .slot_mapping = device_memory.allocate<int64_t>(shape.num_groups * tokens),
             .block_tables = device_memory.allocate<int32_t>(shape.num_table_entries())};
  for (int32_t group = 0; group < shape.num_groups; ++group) {
    groups_.push_back({params_.slot_mapping + group * tokens,
                       params_.block_tables + group * reqs * shape.max_blocks(),
                       shape.max_blocks()});
  }
}

Status GpuStepInputs::apply(const StepPlan& plan) {
  const int64_t num_entries = count_entries(plan, shape_);
  if (num_entries > shape_.num_table_entries()) {
    return internal_error("step plan: {} changes of {} block table entries", num_entries,
                          shape_.num_table_entries());
  }
  for (const RequestId id : plan.dropped) {
    const auto it = slots_.find(id);
    if (it == slots_.end()) continue;
    free_slots_.push_back(it->second);
    slots_.erase(it);
  }
  for (const NewRequest& request : plan.new_requests) {
    if (slots_.contains(request.id)) continue;  // the request was sent again
    if (free_slots_.empty()) {
      return internal_error("step plan: request {} is one more than {}", request.id,
                            shape_.limits.max_reqs);
    }
    slots_.emplace(request.id, free_slots_.back());
    free_slots_.pop_back();
  }
  return {};
}

// Fills one staging buffer, points params_ at the places where its parts will lie on the device,
// and returns their bytes.
int64_t GpuStepInputs::stage(const StepPlan& plan, const InputBatch& batch, std::byte* to) {
  const auto num_requests = static_cast<int64_t>(plan.scheduled.size());
  const int64_t num_entries = count_entries(plan, shape_);
  auto* requests = reinterpret_cast<StepRequest*>(to);
  auto* entries = reinterpret_cast<BlockEntry*>(requests + num_requests);
  auto* ids = reinterpret_cast<TokenId*>(entries + num_entries);
  int32_t first_token = 0;
  for (const ScheduledRequest& scheduled : plan.scheduled) {
    const auto index = static_cast<size_t>(&scheduled - plan.scheduled.data());
    const std::vector<TokenId>& known = batch.request(index).token_ids;
    const int32_t begin = scheduled.num_computed_tokens;
    const int32_t num_known = std::clamp(static_cast<int32_t>(known.size()) - begin, 0,
                                         scheduled.num_scheduled_tokens - scheduled.num_drafts);
    const std::span<const TokenId> drafts = plan.drafts(scheduled);
    requests[index] = {.slot = slots_.at(scheduled.id),
                       .begin = begin,
                       .num_tokens = scheduled.num_scheduled_tokens,
                       .num_known = num_known + scheduled.num_drafts,
                       .first_token = first_token};
    std::copy_n(known.begin() + begin, num_known, ids + first_token);
    std::copy(drafts.begin(), drafts.end(), ids + first_token + num_known);
    first_token += scheduled.num_scheduled_tokens;
  }
  BlockEntry* entry = entries;
  for (const BlockTableUpdate& update : plan.block_updates) {
    if (!is_entry(update, shape_)) continue;
    const int32_t slot = requests[update.request_index].slot;
    *entry++ = {.index = static_cast<int32_t>((int64_t{update.group} * params_.num_slots + slot) *
                                                  params_.max_blocks +
                                              update.logical_index),
                .block = update.block.value};
  }
  const auto on_device = [&](const auto* part) {
    return reinterpret_cast<decltype(part)>(diff_ +
                                            (reinterpret_cast<const std::byte*>(part) - to));
  };
  params_.requests = on_device(requests);
  params_.entries = on_device(entries);
  params_.known_ids = on_device(ids);
  params_.num_requests = static_cast<int32_t>(num_requests);
  params_.num_entries = num_entries;
  params_.num_tokens = first_token;
  return diff_bytes(num_requests, num_entries, first_token);
}

StateSegments GpuStepInputs::place_segments(size_t turn, const InputBatch& batch,
                                            int32_t padded_requests) {
  if (shape_.max_segments == 0) return {};
  const StateSegments from = batch.segments();
  const int64_t capacity = std::max(shape_.max_segments, shape_.limits.max_reqs);
  const int32_t count = std::max(from.num_segments, padded_requests);
  int32_t* const start_loc = staged_segments_[turn];
  int32_t* const in = start_loc + capacity + 1;
  int32_t* const out = in + capacity;
  std::copy_n(from.start_loc, from.num_segments + 1, start_loc);
  std::copy_n(from.state_in, from.num_segments, in);
  std::copy_n(from.state_out, from.num_segments, out);
  for (int32_t i = from.num_segments; i < count; ++i) {
    start_loc[i + 1] = start_loc[i];
    in[i] = out[i] = 0;
  }
  device_.copy_to_device(segments_, start_loc, shape_.num_segment_entries() * 4);
  return {.start_loc = segments_,
          .state_in = segments_ + capacity + 1,
          .state_out = segments_ + 2 * capacity + 1,
          .num_segments = count};
}

ForwardInputs GpuStepInputs::build(size_t turn, const StepPlan& plan, const InputBatch& batch,
                                   int32_t padded_requests, int64_t padded_tokens) {
  std::byte* staging = staging_[turn];
  const int64_t bytes = stage(plan, batch, staging);
  if (bytes > 0) device_.copy_to_device(diff_, staging, bytes);
  params_.padded_requests = padded_requests;
  params_.padded_tokens = padded_tokens;
  build_step_inputs(device_.stream(), params_);
  return {.num_tokens = padded_tokens,
          .num_reqs = padded_requests,
          .input_ids = params_.input_ids,
          .positions = params_.positions,
          .query_start_loc = params_.query_start_loc,
          .seq_lens = params_.seq_lens,
          .max_query_len = batch.max_query_len(),
          .groups = groups_,
          .states = place_segments(turn, batch, padded_requests)};
}

}  // namespace quire
