#include "exec/input_batch.h"

#include <algorithm>

namespace quire {
namespace {

int64_t padded(int64_t count, int64_t size) { return Arena::padded(count * size); }

}  // namespace

int64_t InputBatch::arena_bytes(const DecoderLimits& limits, int32_t block_size,
                                int32_t num_groups) {
  const int64_t tokens = limits.max_tokens;
  const int64_t reqs = limits.max_reqs;
  const int64_t per_group = padded(tokens, 8) + padded(reqs * max_blocks(limits, block_size), 4);
  return 2 * padded(tokens, 4) + padded(reqs + 1, 4) + padded(reqs, 4) + num_groups * per_group;
}

InputBatch::InputBatch(const DecoderLimits& limits, int32_t block_size, int32_t num_groups)
    : limits_(limits),
      block_size_(block_size),
      max_blocks_(max_blocks(limits, block_size)),
      slot_mapping_(static_cast<size_t>(num_groups), nullptr),
      block_table_(static_cast<size_t>(num_groups), nullptr) {
  rows_.reserve(static_cast<size_t>(limits.max_tokens));
  states_.reserve(static_cast<size_t>(limits.max_reqs));
}

InputBatch::InputBatch(const DecoderLimits& limits, int32_t block_size, int32_t num_groups,
                       Arena& arena)
    : InputBatch(limits, block_size, num_groups) {
  input_ids_ = arena.allocate<TokenId>(limits.max_tokens);
  positions_ = arena.allocate<int32_t>(limits.max_tokens);
  query_start_loc_ = arena.allocate<int32_t>(limits.max_reqs + 1);
  seq_lens_ = arena.allocate<int32_t>(limits.max_reqs);
  for (size_t group = 0; group < slot_mapping_.size(); ++group) {
    slot_mapping_[group] = arena.allocate<int64_t>(limits.max_tokens);
    block_table_[group] = arena.allocate<int32_t>(limits.max_reqs * max_blocks_);
    groups_.push_back({slot_mapping_[group], block_table_[group], max_blocks_});
  }
}

Status InputBatch::build(const StepPlan& plan, RequestTable& requests) {
  num_tokens_ = 0;
  num_reqs_ = 0;
  max_query_len_ = 0;
  rows_.clear();
  states_.clear();
  if (query_start_loc_ != nullptr) query_start_loc_[0] = 0;
  if (static_cast<int64_t>(plan.scheduled.size()) > limits_.max_reqs) {
    return internal_error("step plan: {} requests, at most {}", plan.scheduled.size(),
                          limits_.max_reqs);
  }
  for (const ScheduledRequest& scheduled : plan.scheduled) {
    RequestState* state = requests.find(scheduled.id);
    if (state == nullptr)
      return internal_error("step plan: request {} was never sent", scheduled.id);
    QUIRE_RETURN_IF_ERROR(add(scheduled, *state, num_reqs_));
  }
  return {};
}

Status InputBatch::add(const ScheduledRequest& scheduled, RequestState& state, int32_t index) {
  const int64_t begin = scheduled.num_computed_tokens;
  const int64_t count = scheduled.num_scheduled_tokens;
  if (begin < 0 || count < 1 || begin + count > state.num_tokens() ||
      begin + count > limits_.max_seq_len || num_tokens_ + count > limits_.max_tokens) {
    return internal_error(
        "step plan: request {}: positions [{}, {}) of {} known tokens in a step of {}",
        scheduled.id, begin, begin + count, state.num_tokens(), limits_.max_tokens);
  }
  for (size_t group = 0; group < slot_mapping_.size(); ++group) {
    QUIRE_RETURN_IF_ERROR(add_blocks(scheduled, state, group));
  }
  if (input_ids_ != nullptr) add_tokens(scheduled, state);
  add_logits_rows(scheduled, state, index);
  num_tokens_ += count;
  ++num_reqs_;
  max_query_len_ = std::max(max_query_len_, scheduled.num_scheduled_tokens);
  states_.push_back(&state);
  return {};
}

void InputBatch::add_tokens(const ScheduledRequest& scheduled, const RequestState& state) {
  const int32_t begin = scheduled.num_computed_tokens;
  const int32_t count = scheduled.num_scheduled_tokens;
  for (int32_t i = 0; i < count; ++i) {
    input_ids_[num_tokens_ + i] = state.token_ids[static_cast<size_t>(begin + i)];
    positions_[num_tokens_ + i] = begin + i;
  }
  seq_lens_[num_reqs_] = begin + count;
  query_start_loc_[num_reqs_ + 1] = static_cast<int32_t>(num_tokens_ + count);
}

Status InputBatch::add_blocks(const ScheduledRequest& scheduled, const RequestState& state,
                              size_t group) {
  const int64_t begin = scheduled.num_computed_tokens;
  const int64_t end = begin + scheduled.num_scheduled_tokens;
  const auto num_blocks = static_cast<size_t>((end + block_size_ - 1) / block_size_);
  const std::vector<int32_t>& table = state.block_tables[group];
  if (table.size() < num_blocks) {
    return internal_error("step plan: request {}: {} blocks in group {}, needs {}", scheduled.id,
                          table.size(), group, num_blocks);
  }
  const bool fills = slot_mapping_[group] != nullptr;
  if (fills) std::copy_n(table.begin(), num_blocks, block_table_[group] + num_reqs_ * max_blocks_);
  for (int64_t position = begin; position < end; ++position) {
    const int64_t block = table[static_cast<size_t>(position / block_size_)];
    if (block == kNullBlock.value) {
      return internal_error("step plan: request {}: position {} lies in the null block of group {}",
                            scheduled.id, position, group);
    }
    if (!fills) continue;
    slot_mapping_[group][num_tokens_ + position - begin] =
        block * block_size_ + position % block_size_;
  }
  return {};
}

void InputBatch::add_logits_rows(const ScheduledRequest& scheduled, const RequestState& state,
                                 int32_t index) {
  const int32_t begin = scheduled.num_computed_tokens;
  const int32_t end = begin + scheduled.num_scheduled_tokens;
  const auto first_token = static_cast<int32_t>(num_tokens_);
  if (state.params->prompt_logprobs) {
    for (int32_t position = begin + 1; position <= end && position < state.num_prompt_tokens;
         ++position) {
      rows_.push_back({first_token + position - 1 - begin, index, position, false});
    }
  }
  if (end == state.num_tokens()) {
    rows_.push_back({first_token + end - 1 - begin, index, end, true});
  }
}

void InputBatch::start_results(const StepPlan& plan,
                               std::vector<RequestStepResult>& results) const {
  results.resize(plan.scheduled.size());
  for (size_t i = 0; i < plan.scheduled.size(); ++i) {
    results[i].id = plan.scheduled[i].id;
    results[i].status = states_[i]->status;
  }
}

Status check_block_copies(const StepPlan& plan, int32_t num_blocks) {
  for (const BlockCopy& copy : plan.block_copies) {
    if (copy.source.value < 0 || copy.source.value >= num_blocks || copy.destination.value <= 0 ||
        copy.destination.value >= num_blocks) {
      return internal_error("step plan: copy of block {} to {}: out of range", copy.source,
                            copy.destination);
    }
  }
  return {};
}

ForwardInputs InputBatch::inputs() const {
  return {.num_tokens = num_tokens_,
          .num_reqs = num_reqs_,
          .input_ids = input_ids_,
          .positions = positions_,
          .query_start_loc = query_start_loc_,
          .seq_lens = seq_lens_,
          .max_query_len = max_query_len_,
          .groups = groups_};
}

}  // namespace quire
