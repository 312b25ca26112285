#include "exec/logits_stage.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "sample/logits_processors.h"

namespace quire {

namespace {

bool wants_only_greatest(const InputBatch& batch, const LogitsRow& row) {
  const RequestState& state = batch.request(static_cast<size_t>(row.request_index));
  return row.samples && wants_greatest(*state.params, row.position - state.num_prompt_tokens);
}

}  // namespace

LogitsStage::LogitsStage(ComputeLogits compute, FindGreatest find_greatest, ThreadTeam& team,
                         std::span<float> logits, int64_t vocab_size, int64_t max_rows)
    : compute_(std::move(compute)),
      find_greatest_(std::move(find_greatest)),
      team_(team),
      logits_(logits),
      vocab_size_(static_cast<size_t>(vocab_size)),
      max_rows_(static_cast<size_t>(max_rows)),
      samplers_(static_cast<size_t>(team.size())),
      outcomes_(max_rows_),
      greatest_(static_cast<size_t>(team.size()) * max_rows_),
      allowed_(max_rows_) {
  tokens_.reserve(max_rows_);
  starts_.reserve(max_rows_);
  // Threads take rows as they become free, so a warm-up does not reach every sampler.
  for (Sampler& sampler : samplers_) sampler.reserve(vocab_size_);
}

Status LogitsStage::run(const InputBatch& batch, std::vector<RequestStepResult>& results,
                        const Observer& observer, StepTimings& timings) {
  const SteadyClock clock;
  const std::span<const LogitsRow> rows = batch.logits_rows();
  for (size_t begin = 0; begin < rows.size(); begin += max_rows_) {
    const std::span<const LogitsRow> chunk =
        rows.subspan(begin, std::min(max_rows_, rows.size() - begin));
    const int64_t start_us = clock.now_us();
    tokens_.clear();
    for (const LogitsRow& row : chunk) tokens_.push_back(row.token);
    const bool greatest =
        find_greatest_ && !observer &&
        std::all_of(chunk.begin(), chunk.end(),
                    [&](const LogitsRow& row) { return wants_only_greatest(batch, row); }) &&
        find_greatest(batch, chunk);
    if (!greatest) QUIRE_RETURN_IF_ERROR(compute_(tokens_));
    const int64_t logits_us = clock.now_us();
    greatest ? choose_greatest(batch, chunk) : sample_rows(batch, chunk);
    for (size_t i = 0; i < chunk.size(); ++i) {
      if (!outcomes_[i].is_reached) continue;
      const auto request = static_cast<size_t>(chunk[i].request_index);
      if (observer)
        observer(results[request].id, chunk[i].position,
                 logits_.subspan(i * vocab_size_, vocab_size_));
      store(chunk[i], batch.request(request), outcomes_[i], results[request]);
    }
    timings.logits_us += logits_us - start_us;
    timings.sample_us += clock.now_us() - logits_us;
  }
  return {};
}

Status LogitsStage::compute_only(const InputBatch& batch) {
  const std::span<const LogitsRow> rows = batch.logits_rows();
  for (size_t begin = 0; begin < rows.size(); begin += max_rows_) {
    tokens_.clear();
    for (const LogitsRow& row : rows.subspan(begin, std::min(max_rows_, rows.size() - begin)))
      tokens_.push_back(row.token);
    QUIRE_RETURN_IF_ERROR(compute_(tokens_));
  }
  return {};
}

void LogitsStage::sample_rows(const InputBatch& batch, std::span<const LogitsRow> rows) {
  // Samples a row and then, in order, those behind its drafts.
  const auto sample_from = [&](size_t start, int thread) {
    size_t i = start;
    do {
      sample_row(batch, rows[i], logits_.subspan(i * vocab_size_, vocab_size_),
                 samplers_[static_cast<size_t>(thread)], outcomes_[i]);
    } while (++i < rows.size() && rows[i].draft >= 0);
  };
  starts_.clear();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i == 0 || rows[i].draft < 0) starts_.push_back(i);
  }
  if (starts_.size() == 1) return sample_from(0, 0);
  team_.deal(static_cast<int64_t>(starts_.size()), 1, team_.size());
  team_.run([&](int thread) {
    for (WorkRange some = team_.take(thread); some.begin < some.end; some = team_.take(thread)) {
      for (int64_t i = some.begin; i < some.end; ++i)
        sample_from(starts_[static_cast<size_t>(i)], thread);
    }
  });
}

bool LogitsStage::find_greatest(const InputBatch& batch, std::span<const LogitsRow> rows) {
  const auto words = [&](const LogitsRow& row) {
    return row.mask_row < 0 ? nullptr : batch.token_mask(row).data();
  };
  std::transform(rows.begin(), rows.end(), allowed_.begin(), words);
  return find_greatest_(tokens_, allowed_.data(), greatest_);
}

// Makes the same choices as the sampler: the first of equal logits, and an error for a row with a
// logit that is not finite.
void LogitsStage::choose_greatest(const InputBatch& batch, std::span<const LogitsRow> rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    RequestState& state = batch.request(static_cast<size_t>(rows[i].request_index));
    outcomes_[i] = {.is_reached = is_reached(rows[i], state)};
    if (!outcomes_[i].is_reached || !state.status.ok()) continue;
    if (!greatest_[i].all_finite) {
      outcomes_[i].status = not_finite(rows[i].position);
    } else if (greatest_[i].column < 0) {
      outcomes_[i].status = all_forbidden();
    } else {
      outcomes_[i].output.token_id = greatest_[i].column;
    }
    append(rows[i], state, outcomes_[i]);
  }
}

void LogitsStage::sample_row(const InputBatch& batch, const LogitsRow& row,
                             std::span<const float> logits, Sampler& sampler, Outcome& outcome) {
  RequestState& state = batch.request(static_cast<size_t>(row.request_index));
  outcome = {.is_reached = is_reached(row, state)};
  if (!outcome.is_reached || !state.status.ok()) return;
  if (row.samples) {
    Result<SampleOutput> sampled =
        sampler.sample({.logits = logits,
                        .params = *state.params,
                        .state = state.sampler,
                        .position = state.first_position + row.position,
                        .num_output_tokens = row.position - state.num_prompt_tokens,
                        .token_mask = batch.token_mask(row)});
    outcome.status = sampled.status();
    if (sampled.ok()) outcome.output = std::move(*sampled);
    append(row, state, outcome);
    return;
  }
  Result<TokenLogprobs> logprobs = sampler.logprobs(
      logits, state.token_ids[static_cast<size_t>(row.position)], *state.params->prompt_logprobs);
  outcome.status = logprobs.status();
  if (logprobs.ok()) outcome.output.logprobs = std::move(*logprobs);
}

void LogitsStage::append(const LogitsRow& row, RequestState& state, Outcome& outcome) {
  if (outcome.status.ok()) return state.append(outcome.output.token_id);
  if (row.draft >= 0) outcome = {.is_reached = false};
}

void LogitsStage::store(const LogitsRow& row, RequestState& state, Outcome& outcome,
                        RequestStepResult& result) {
  if (!outcome.status.ok()) {
    state.status = outcome.status;
    result.status = outcome.status;
  }
  if (!result.status.ok()) {
    result.sampled_token_ids.clear();
    result.logprobs.clear();
    return;
  }
  if (!row.samples) {
    if (result.prompt_logprobs.empty()) result.prompt_logprobs_begin = row.position;
    result.prompt_logprobs.push_back(std::move(*outcome.output.logprobs));
    return;
  }
  result.sampled_token_ids.push_back(outcome.output.token_id);
  if (outcome.output.logprobs) result.logprobs.push_back(std::move(*outcome.output.logprobs));
}

}  // namespace quire
