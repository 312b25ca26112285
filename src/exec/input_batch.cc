#include "exec/input_batch.h"

#include <algorithm>
#include <numeric>

#include "exec/loaded_adapter.h"
#include "exec/media/axis_positions.h"

namespace quire {
namespace {

int64_t padded(int64_t count, int64_t size) { return Arena::padded(count * size); }

}  // namespace

int64_t max_state_segments(const DecoderLimits& limits, const KvSpec& kv) {
  return std::min(limits.max_tokens, 2 * limits.max_reqs + limits.max_tokens / kv.state.block_size);
}

int64_t InputBatch::arena_bytes(const DecoderLimits& limits, const KvSpec& kv) {
  const int64_t tokens = limits.max_tokens;
  const int64_t reqs = limits.max_reqs;
  const int64_t segments = max_state_segments(limits, kv);
  int64_t bytes =
      4 * padded(tokens, 4) + padded(3 * tokens, 4) + padded(reqs + 1, 4) + padded(reqs, 4);
  for (const KvGroupSpec& group : kv.groups) {
    bytes += group.pool() == KvPool::kState
                 ? padded(segments + 1, 4) + 2 * padded(segments, 4)
                 : padded(tokens, 8) + padded(reqs * max_blocks(limits, kv.block_size), 4);
  }
  return bytes;
}

InputBatch::InputBatch(const DecoderLimits& limits, const KvSpec& kv)
    : limits_(limits),
      block_size_(kv.block_size),
      state_block_size_(kv.state.block_size),
      max_blocks_(max_blocks(limits, kv.block_size)),
      slot_mapping_(kv.groups.size(), nullptr),
      block_table_(kv.groups.size(), nullptr) {
  for (const KvGroupSpec& group : kv.groups) pools_.push_back(group.pool());
  if (kv.uses(KvPool::kState)) {
    const auto segments = static_cast<size_t>(max_state_segments(limits, kv));
    own_segments_.resize(3 * segments + 1);
    segment_start_loc_ = own_segments_.data();
    state_in_ = segment_start_loc_ + segments + 1;
    state_out_ = state_in_ + segments;
  }
  rows_.reserve(static_cast<size_t>(limits.max_tokens));
  lora_rows_.resize(static_cast<size_t>(limits.max_tokens));
  states_.reserve(static_cast<size_t>(limits.max_reqs));
}

InputBatch::InputBatch(const DecoderLimits& limits, const KvSpec& kv, Arena& arena)
    : InputBatch(limits, kv) {
  own_segments_.clear();
  input_ids_ = arena.allocate<TokenId>(limits.max_tokens);
  positions_ = arena.allocate<int32_t>(limits.max_tokens);
  axis_positions_ = arena.allocate<int32_t>(3 * limits.max_tokens);
  token_types_ = arena.allocate<int32_t>(limits.max_tokens);
  seen_ends_ = arena.allocate<int32_t>(limits.max_tokens);
  query_start_loc_ = arena.allocate<int32_t>(limits.max_reqs + 1);
  seq_lens_ = arena.allocate<int32_t>(limits.max_reqs);
  for (size_t group = 0; group < slot_mapping_.size(); ++group) {
    if (pools_[group] == KvPool::kState) {
      const int64_t segments = max_state_segments(limits, kv);
      segment_start_loc_ = arena.allocate<int32_t>(segments + 1);
      state_in_ = arena.allocate<int32_t>(segments);
      state_out_ = arena.allocate<int32_t>(segments);
      continue;
    }
    slot_mapping_[group] = arena.allocate<int64_t>(limits.max_tokens);
    block_table_[group] = arena.allocate<int32_t>(limits.max_reqs * max_blocks_);
    groups_.push_back({slot_mapping_[group], block_table_[group], max_blocks_});
  }
}

Status InputBatch::build(const StepPlan& plan, RequestTable& requests) {
  num_tokens_ = 0;
  num_reqs_ = 0;
  num_segments_ = 0;
  max_query_len_ = 0;
  has_own_ends_ = false;
  rows_.clear();
  states_.clear();
  if (query_start_loc_ != nullptr) query_start_loc_[0] = 0;
  if (segment_start_loc_ != nullptr) segment_start_loc_[0] = 0;
  if (static_cast<int64_t>(plan.scheduled.size()) > limits_.max_reqs) {
    return internal_error("step plan: {} requests, at most {}", plan.scheduled.size(),
                          limits_.max_reqs);
  }
  vocab_size_ = requests.vocab_size();
  QUIRE_RETURN_IF_ERROR(take_masks(plan));
  for (const ScheduledRequest& scheduled : plan.scheduled) {
    RequestState* state = requests.find(scheduled.id);
    if (state == nullptr)
      return internal_error("step plan: request {} was never sent", scheduled.id);
    if (scheduled.num_drafts < 0 || scheduled.first_draft < 0 ||
        int64_t{scheduled.first_draft} + scheduled.num_drafts > std::ssize(plan.draft_token_ids)) {
      return internal_error("step plan: request {}: drafts [{}, {}) of {}", scheduled.id,
                            scheduled.first_draft, scheduled.first_draft + scheduled.num_drafts,
                            plan.draft_token_ids.size());
    }
    QUIRE_RETURN_IF_ERROR(add(scheduled, plan.drafts(scheduled), *state, num_reqs_));
  }
  list_adapters(plan);
  return {};
}

void InputBatch::list_adapters(const StepPlan& plan) {
  adapters_.clear();
  size_t num_rows = 0;
  for (size_t first = 0; first < states_.size(); ++first) {
    const Adapter* const adapter = states_[first]->adapter.get();
    const auto has_it = [adapter](const RequestState* state) {
      return state->adapter.get() == adapter;
    };
    const auto begin = states_.begin(), here = begin + static_cast<std::ptrdiff_t>(first);
    if (adapter == nullptr || std::any_of(begin, here, has_it)) continue;
    int32_t row = 0;
    const size_t first_row = num_rows;
    for (size_t i = 0; i < states_.size(); ++i) {
      const int32_t count = plan.scheduled[i].num_scheduled_tokens;
      for (int32_t j = 0; has_it(states_[i]) && j < count; ++j) lora_rows_[num_rows++] = row + j;
      row += count;
    }
    const auto& loaded = static_cast<const LoadedAdapter&>(*adapter);
    adapters_.push_back({.weights = &loaded.weights,
                         .slot = loaded.device_slot,
                         .rows = std::span(lora_rows_).subspan(first_row, num_rows - first_row)});
  }
}

Status InputBatch::take_masks(const StepPlan& plan) {
  token_masks_ = plan.token_masks;
  const int32_t expected = words_per_mask(static_cast<int32_t>(vocab_size_));
  if (token_masks_.num_words != 0 && token_masks_.num_words != expected) {
    return internal_error("step plan: token masks of {} words, expected {}", token_masks_.num_words,
                          expected);
  }
  return {};
}

Status InputBatch::check(const ScheduledRequest& scheduled, std::span<const TokenId> drafts,
                         const RequestState& state) const {
  const int64_t begin = scheduled.num_computed_tokens;
  const int64_t count = scheduled.num_scheduled_tokens;
  const int64_t num_drafts = std::ssize(drafts);
  const int64_t known_end = begin + count - num_drafts;
  if (begin < 0 || known_end <= begin || known_end > state.num_tokens() ||
      begin + count > limits_.max_seq_len || num_tokens_ + count > limits_.max_tokens) {
    return internal_error(
        "step plan: request {}: positions [{}, {}), {} of them drafted, of {} known tokens in a "
        "step of {}",
        scheduled.id, begin, begin + count, num_drafts, state.num_tokens(), limits_.max_tokens);
  }
  if (num_drafts > 0 && (known_end != state.num_tokens() || state.num_open_tokens > 0)) {
    return internal_error("step plan: request {}: drafts behind {} of {} tokens, {} of them open",
                          scheduled.id, known_end, state.num_tokens(), state.num_open_tokens);
  }
  for (const TokenId id : drafts) {
    if (id >= 0 && id < vocab_size_) continue;
    return internal_error("step plan: request {}: expected drafts in [0, {}), got {}", scheduled.id,
                          vocab_size_, id);
  }
  const int64_t masks_end = scheduled.mask_row < 0 ? 0 : scheduled.mask_row + num_drafts + 1;
  if (masks_end > token_masks_.num_rows()) {
    return internal_error("step plan: request {}: token masks to {} of {}", scheduled.id, masks_end,
                          token_masks_.num_rows());
  }
  return {};
}

Status InputBatch::add(const ScheduledRequest& scheduled, std::span<const TokenId> drafts,
                       RequestState& state, int32_t index) {
  QUIRE_RETURN_IF_ERROR(check(scheduled, drafts, state));
  for (size_t group = 0; group < slot_mapping_.size(); ++group) {
    QUIRE_RETURN_IF_ERROR(pools_[group] == KvPool::kState ? add_segments(scheduled, state, group)
                                                          : add_blocks(scheduled, state, group));
  }
  if (input_ids_ != nullptr) add_tokens(scheduled, drafts, state);
  if (sees_whole_pictures_) QUIRE_RETURN_IF_ERROR(add_seen_ends(scheduled, state));
  add_logits_rows(scheduled, drafts, state, index);
  num_tokens_ += scheduled.num_scheduled_tokens;
  ++num_reqs_;
  max_query_len_ = std::max(max_query_len_, scheduled.num_scheduled_tokens);
  states_.push_back(&state);
  return {};
}

void InputBatch::add_tokens(const ScheduledRequest& scheduled, std::span<const TokenId> drafts,
                            const RequestState& state) {
  const int32_t begin = scheduled.num_computed_tokens;
  const int32_t count = scheduled.num_scheduled_tokens;
  const auto num_known = count - static_cast<int32_t>(drafts.size());
  std::copy_n(state.token_ids.begin() + begin, num_known, input_ids_ + num_tokens_);
  std::copy(drafts.begin(), drafts.end(), input_ids_ + num_tokens_ + num_known);
  const int32_t first_type_1 = state.pooling == nullptr ? -1 : state.pooling->first_type_1_token;
  for (int32_t i = 0; i < count; ++i) {
    positions_[num_tokens_ + i] = begin + i;
    token_types_[num_tokens_ + i] = first_type_1 >= 0 && begin + i >= first_type_1 ? 1 : 0;
  }
  write_axis_positions(state.media, picture_cell_size_, begin, count,
                       axis_positions_ + 3 * num_tokens_);
  seq_lens_[num_reqs_] = begin + count;
  query_start_loc_[num_reqs_ + 1] = static_cast<int32_t>(num_tokens_ + count);
}

Status InputBatch::add_seen_ends(const ScheduledRequest& scheduled, const RequestState& state) {
  const int32_t begin = scheduled.num_computed_tokens;
  const int32_t end = begin + scheduled.num_scheduled_tokens;
  int32_t* const ends = seen_ends_ + num_tokens_;
  std::iota(ends, ends + scheduled.num_scheduled_tokens, begin + 1);
  for (const MediaSpan& span : state.media) {
    if (span.end <= begin || span.begin >= end) continue;
    if (span.end > end) {
      return internal_error(
          "step plan: request {}: tokens [{}, {}) end within a picture's [{}, {})", scheduled.id,
          begin, end, span.begin, span.end);
    }
    const int32_t first = std::max(begin, span.begin);
    std::fill(ends + first - begin, ends + span.end - begin, span.end);
    has_own_ends_ = true;
  }
  return {};
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

Status InputBatch::add_segments(const ScheduledRequest& scheduled, const RequestState& state,
                                size_t group) {
  if (scheduled.num_drafts > 0) {
    return internal_error("step plan: request {}: {} drafts of a model with states", scheduled.id,
                          scheduled.num_drafts);
  }
  const std::vector<int32_t>& table = state.block_tables[group];
  const auto block_of = [&](int32_t position) {
    const auto index = static_cast<size_t>(position / state_block_size_);
    return index < table.size() ? table[index] : kNullBlock.value;
  };
  const int32_t begin = scheduled.num_computed_tokens;
  const int32_t end = begin + scheduled.num_scheduled_tokens;
  int32_t in = begin == 0 ? kNullBlock.value : block_of(begin - 1);
  for (int32_t first = begin; first < end;) {
    const int32_t last = std::min(end, (first / state_block_size_ + 1) * state_block_size_);
    const int32_t out = block_of(first);
    if (out == kNullBlock.value || (first > 0 && in == kNullBlock.value)) {
      return internal_error("step plan: request {}: no state at position {}", scheduled.id, first);
    }
    state_in_[num_segments_] = in;
    state_out_[num_segments_] = out;
    segment_start_loc_[++num_segments_] = static_cast<int32_t>(num_tokens_ + last - begin);
    first = last;
    in = out;
  }
  return {};
}

void InputBatch::add_logits_rows(const ScheduledRequest& scheduled, std::span<const TokenId> drafts,
                                 const RequestState& state, int32_t index) {
  const int32_t begin = scheduled.num_computed_tokens;
  const auto num_drafts = static_cast<int32_t>(drafts.size());
  const int32_t known_end = begin + scheduled.num_scheduled_tokens - num_drafts;
  const auto first_token = static_cast<int32_t>(num_tokens_);
  if (state.params->prompt_logprobs) {
    for (int32_t position = begin + 1; position <= known_end && position < state.num_prompt_tokens;
         ++position) {
      rows_.push_back({.token = first_token + position - 1 - begin,
                       .request_index = index,
                       .position = position});
    }
  }
  if (known_end < state.num_tokens() || !samples(state.kind)) return;
  for (int32_t i = 0; i <= num_drafts; ++i) {
    rows_.push_back({.token = first_token + known_end + i - 1 - begin,
                     .request_index = index,
                     .position = known_end + i,
                     .samples = true,
                     .mask_row = scheduled.mask_row < 0 ? -1 : scheduled.mask_row + i,
                     .draft = i == 0 ? -1 : drafts[static_cast<size_t>(i - 1)]});
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

bool is_reached(const LogitsRow& row, const RequestState& state) {
  return row.draft < 0 ||
         (std::ssize(state.token_ids) == row.position && state.token_ids.back() == row.draft);
}

void clear_results(std::vector<RequestStepResult>& results) {
  for (RequestStepResult& request : results) {
    request.sampled_token_ids.clear();
    request.logprobs.clear();
    request.prompt_logprobs.clear();
    request.prompt_logprobs_begin = 0;
    request.pooled = {};
  }
}

ForwardInputs InputBatch::inputs() const {
  return {.num_tokens = num_tokens_,
          .num_reqs = num_reqs_,
          .input_ids = input_ids_,
          .positions = positions_,
          .axis_positions = axis_positions_,
          .token_types = token_types_,
          .seen_ends = has_own_ends_ ? seen_ends_ : nullptr,
          .query_start_loc = query_start_loc_,
          .seq_lens = seq_lens_,
          .max_query_len = max_query_len_,
          .groups = groups_,
          .states = segments(),
          .adapters = adapters_};
}

void list_texts(const InputBatch& batch, std::vector<HiddenText>& texts) {
  texts.clear();
  for (int32_t i = 0; i < batch.num_reqs(); ++i) {
    const RequestState& state = batch.request(static_cast<size_t>(i));
    texts.push_back({.id = state.id,
                     .token_ids = state.token_ids,
                     .num_prompt_tokens = state.num_prompt_tokens,
                     .params = state.params,
                     .may_draft = state.kind == RequestKind::kGenerate &&
                                  state.adapter == nullptr &&
                                  state.params->num_speculative_tokens != 0});
  }
}

}  // namespace quire
