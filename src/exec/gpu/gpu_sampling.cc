#include "exec/gpu/gpu_sampling.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "exec/logits_stage.h"

namespace quire {
namespace {

// The bytes that `count` values take of the buffer that is sent: each list begins at a multiple of
// 16 bytes.
template <typename T>
int64_t room_of(int64_t count) {
  return (count * int64_t{sizeof(T)} + 15) / 16 * 16;
}

// The bytes of all of these lists.
template <typename... T>
int64_t room_of_all(const std::vector<T>&... lists) {
  return (room_of<T>(std::ssize(lists)) + ...);
}

// The rows of the sampler, the rows of the batch, two slots of each, and then the lists of the rows.
int64_t sent_bytes(const GpuSampling::Shape& shape) {
  return Arena::padded(room_of<SampleRow>(shape.max_rows) + 3 * room_of<int32_t>(shape.max_rows) +
                       GpuSampling::kListBytes);
}

int64_t received_bytes(const GpuSampling::Shape& shape) {
  const int64_t alternatives = shape.max_rows * GpuSampling::kMaxLogprobs;
  return Arena::padded(shape.max_rows * static_cast<int64_t>(sizeof(SampledToken))) +
         2 * Arena::padded(alternatives * 4);
}

LogitsStage::Outcome outcome_of(const LogitsRow& row, const SampledToken& sampled, int32_t num_top,
                                const TokenId* top_ids, const float* top_logprobs) {
  LogitsStage::Outcome outcome;
  if (sampled.status == SampleStatus::kNotFinite) {
    outcome.status = not_finite(row.position);
    return outcome;
  }
  if (sampled.status == SampleStatus::kAllForbidden) {
    outcome.status = all_forbidden();
    return outcome;
  }
  outcome.output.token_id = sampled.token_id;
  if (num_top < 0) return outcome;
  TokenLogprobs& logprobs = outcome.output.logprobs.emplace();
  logprobs.token_id = sampled.token_id;
  logprobs.logprob = sampled.logprob;
  logprobs.rank = sampled.rank;
  for (int32_t i = 0; i < num_top; ++i) logprobs.top.emplace_back(top_ids[i], top_logprobs[i]);
  return outcome;
}

bool is_for_the_host(const RequestState& state) {
  const SamplingParams& params = *state.params;
  const int32_t vocabulary = -1;
  return params.logprobs == vocabulary || params.prompt_logprobs == vocabulary ||
         !params.logprob_token_ids.empty() || params.transcript_rules != nullptr ||
         params.logprobs.value_or(0) > GpuSampling::kMaxLogprobs ||
         params.prompt_logprobs.value_or(0) > GpuSampling::kMaxLogprobs;
}

}  // namespace

int64_t GpuSampling::device_bytes(const Shape& shape) {
  return Arena::padded(shape.max_logit_rows * shape.vocab_size * 4) + sent_bytes(shape) +
         received_bytes(shape) +
         GpuTokenCounts::device_bytes({shape.max_requests, shape.vocab_size, shape.num_staged});
}

int64_t GpuSampling::pinned_bytes(const Shape& shape) {
  return shape.num_staged * (sent_bytes(shape) + received_bytes(shape)) +
         GpuTokenCounts::pinned_bytes(shape.num_staged);
}

GpuSampling::GpuSampling(const Shape& shape, float* logits, Device& device, Arena& device_memory,
                         Arena& pinned)
    : shape_(shape),
      logits_(logits),
      device_(device),
      staging_(static_cast<size_t>(shape.num_staged)),
      rows_(shape.vocab_size),
      counts_({shape.max_requests, shape.vocab_size, shape.num_staged}, device, device_memory,
              pinned) {
  const int64_t alternatives = shape.max_rows * kMaxLogprobs;
  for (Staging& staging : staging_) {
    staging.sent = static_cast<std::byte*>(pinned.allocate_bytes(sent_bytes(shape)));
    staging.tokens = pinned.allocate<SampledToken>(shape.max_rows);
    staging.top_ids = pinned.allocate<TokenId>(alternatives);
    staging.top_logprobs = pinned.allocate<float>(alternatives);
  }
  sent_ = static_cast<std::byte*>(device_memory.allocate_bytes(sent_bytes(shape)));
  params_ = {.vocab_size = shape.vocab_size,
             .processed = device_memory.allocate<float>(shape.max_logit_rows * shape.vocab_size),
             .token_counts = counts_.counts(),
             .out = device_memory.allocate<SampledToken>(shape.max_rows),
             .max_logprobs = kMaxLogprobs,
             .top_ids = device_memory.allocate<TokenId>(alternatives),
             .top_logprobs = device_memory.allocate<float>(alternatives)};
}

// Returns how many alternatives a row lists; -1: it wants no logprobs.
int32_t GpuSampling::num_logprobs(const LogitsRow& row, const RequestState& state) const {
  const SamplingParams& params = *state.params;
  const int32_t wanted = (row.samples ? params.logprobs : params.prompt_logprobs).value_or(-1);
  return static_cast<int32_t>(std::min<int64_t>(wanted, shape_.vocab_size));
}

// Returns false if there is no memory to count the request's tokens.
bool GpuSampling::add_row(const LogitsRow& row, const InputBatch& batch) {
  const RequestState& state = batch.request(static_cast<size_t>(row.request_index));
  const bool counts = row.samples && uses_penalties(*state.params);
  count_slots_.push_back(counts ? counts_.slot(state.id) : -1);
  if (counts && count_slots_.back() < 0) return false;
  has_penalties_ = has_penalties_ || counts;
  tokens_.push_back(row.token);
  const int32_t num_top = num_logprobs(row, state);
  has_logprobs_ = has_logprobs_ || num_top >= 0;
  rows_.add({.params = *state.params,
             .position = state.first_position + row.position,
             .num_output_tokens = row.position - state.num_prompt_tokens,
             .recent_output = state.sampler.recent_output(),
             .counts_slot = count_slots_.back(),
             .forced_token = row.samples ? -1 : state.token_ids[static_cast<size_t>(row.position)],
             .num_logprobs = num_top,
             .token_mask = batch.token_mask(row)});
  return true;
}

int64_t GpuSampling::list_bytes() const {
  return room_of_all(rows_.allowed_masks, rows_.token_masks, rows_.bias_ids, rows_.bias_values,
                     rows_.forbidden_ids, rows_.bad_word_starts, rows_.bad_word_ids,
                     rows_.recent_ids);
}

bool GpuSampling::takes(const InputBatch& batch) {
  const std::span<const LogitsRow> rows = batch.logits_rows();
  if (static_cast<int64_t>(rows.size()) > shape_.max_rows || shape_.vocab_size > kMaxSampledVocab) {
    return false;
  }
  rows_.clear();
  tokens_.clear();
  count_slots_.clear();
  has_logprobs_ = false;
  has_penalties_ = false;
  for (const LogitsRow& row : rows) {
    const RequestState& state = batch.request(static_cast<size_t>(row.request_index));
    if (is_for_the_host(state)) return false;
    // The processing of a row behind a draft depends on the draft.
    if (row.draft >= 0 && (uses_penalties(*state.params) || !state.params->bad_words.empty()))
      return false;
    if (!add_row(row, batch) || list_bytes() > kListBytes) return false;
  }
  return true;
}

// Copies the values into the staging buffer and returns where they will lie on the device.
template <typename T>
const T* GpuSampling::send(const Staging& staging, const std::vector<T>& values, int64_t& offset) {
  const int64_t begin = std::exchange(offset, offset + room_of_all(values));
  QUIRE_CHECK(offset <= sent_bytes(shape_), "[gpu_sampling] lists of {} bytes, room for {}", offset,
              sent_bytes(shape_));
  if (!values.empty()) std::memcpy(staging.sent + begin, values.data(), values.size() * sizeof(T));
  return reinterpret_cast<const T*>(sent_ + begin);
}

Status GpuSampling::count_known_tokens(size_t turn, const InputBatch& batch) {
  counts_.begin_step(turn);
  for (size_t i = 0; i < count_slots_.size(); ++i) {
    if (count_slots_[i] < 0) continue;
    const LogitsRow& row = batch.logits_rows()[i];
    const RequestState& state = batch.request(static_cast<size_t>(row.request_index));
    QUIRE_RETURN_IF_ERROR(counts_.count_known(state, row.position));
    counts_.counted_on_device(state.id, row.position);
  }
  return {};
}

Status GpuSampling::run(size_t turn, const StepPlan& plan, const InputBatch& batch,
                        Decoder& decoder, GpuStepInputs& inputs) {
  const Staging& staging = staging_[turn];
  const std::span<const LogitsRow> batch_rows = batch.logits_rows();
  slots_.clear();
  for (const LogitsRow& row : batch_rows) {
    const ScheduledRequest& scheduled = plan.scheduled[static_cast<size_t>(row.request_index)];
    // With drafts, only the host finds out which row's token is the request's last one.
    const bool keeps = row.samples && scheduled.num_drafts == 0;
    slots_.push_back(keeps ? inputs.slot(scheduled.id) : -1);
  }
  int64_t bytes = 0;
  const SampleRow* rows = send(staging, rows_.rows, bytes);
  const int32_t* tokens = send(staging, tokens_, bytes);
  const int32_t* slots = send(staging, slots_, bytes);
  const int32_t* count_slots = send(staging, count_slots_, bytes);
  SampleRowsParams p = params_;
  p.logits = logits_;
  p.allowed_masks = send(staging, rows_.allowed_masks, bytes);
  p.token_masks = send(staging, rows_.token_masks, bytes);
  p.bias_ids = send(staging, rows_.bias_ids, bytes);
  p.bias_values = send(staging, rows_.bias_values, bytes);
  p.forbidden_ids = send(staging, rows_.forbidden_ids, bytes);
  p.bad_word_starts = send(staging, rows_.bad_word_starts, bytes);
  p.bad_word_ids = send(staging, rows_.bad_word_ids, bytes);
  p.recent_ids = send(staging, rows_.recent_ids, bytes);
  const auto num_rows = static_cast<int64_t>(batch_rows.size());
  if (num_rows == 0) return {};
  device_.copy_to_device(sent_, staging.sent, bytes);
  if (has_penalties_) QUIRE_RETURN_IF_ERROR(count_known_tokens(turn, batch));
  for (int64_t begin = 0; begin < num_rows; begin += shape_.max_logit_rows) {
    const int64_t count = std::min(shape_.max_logit_rows, num_rows - begin);
    decoder.head().logits({tokens + begin, static_cast<size_t>(count)}, logits_);
    p.rows = rows + begin;
    p.num_rows = count;
    p.out = params_.out + begin;
    p.top_ids = params_.top_ids + begin * kMaxLogprobs;
    p.top_logprobs = params_.top_logprobs + begin * kMaxLogprobs;
    sample_rows(device_.stream(), p);
  }
  keep_tokens(device_.stream(), {.sampled = params_.out,
                                 .slots = slots,
                                 .num_rows = num_rows,
                                 .last_tokens = inputs.last_tokens()});
  if (has_penalties_) {
    count_tokens(device_.stream(), {.token_counts = counts_.counts(),
                                    .slots = count_slots,
                                    .token_ids = &params_.out->token_id,
                                    .token_stride = kSampledStride,
                                    .num_tokens = num_rows,
                                    .vocab_size = shape_.vocab_size});
  }
  device_.copy_to_host(staging.tokens, params_.out,
                       num_rows * static_cast<int64_t>(sizeof(SampledToken)));
  if (!has_logprobs_) return {};
  const int64_t alternatives = num_rows * kMaxLogprobs * 4;
  device_.copy_to_host(staging.top_ids, params_.top_ids, alternatives);
  device_.copy_to_host(staging.top_logprobs, params_.top_logprobs, alternatives);
  return {};
}

void GpuSampling::store(size_t turn, const InputBatch& batch,
                        std::vector<RequestStepResult>& results) {
  const Staging& staging = staging_[turn];
  for (size_t i = 0; i < batch.logits_rows().size(); ++i) {
    const LogitsRow& row = batch.logits_rows()[i];
    const auto index = static_cast<size_t>(row.request_index);
    RequestState& state = batch.request(index);
    if (row.samples) --state.num_open_tokens;
    if (!is_reached(row, state)) continue;
    LogitsStage::Outcome outcome;
    if (state.status.ok()) {
      outcome =
          outcome_of(row, staging.tokens[i], num_logprobs(row, state),
                     staging.top_ids + i * kMaxLogprobs, staging.top_logprobs + i * kMaxLogprobs);
      if (row.samples) LogitsStage::append(row, state, outcome);
      if (!outcome.is_reached) continue;
    } else {
      results[index].status = state.status;
    }
    LogitsStage::store(row, state, outcome, results[index]);
  }
}

}  // namespace quire
