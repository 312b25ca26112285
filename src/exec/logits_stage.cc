#include "exec/logits_stage.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace quire {

LogitsStage::LogitsStage(ComputeLogits compute, ThreadTeam& team, std::span<float> logits,
                         int64_t vocab_size, int64_t max_rows)
    : compute_(std::move(compute)),
      team_(team),
      logits_(logits),
      vocab_size_(static_cast<size_t>(vocab_size)),
      max_rows_(static_cast<size_t>(max_rows)),
      samplers_(static_cast<size_t>(team.size())),
      outcomes_(max_rows_) {
  tokens_.reserve(max_rows_);
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
    QUIRE_RETURN_IF_ERROR(compute_(tokens_));
    const int64_t logits_us = clock.now_us();

    const auto one = [&](size_t i, int thread) {
      sample_row(batch, chunk[i], logits_.subspan(i * vocab_size_, vocab_size_),
                 samplers_[static_cast<size_t>(thread)], outcomes_[i]);
    };
    if (chunk.size() == 1) {
      one(0, 0);
    } else {
      const auto step = static_cast<size_t>(team_.size());
      team_.run([&](int thread) {
        for (auto i = static_cast<size_t>(thread); i < chunk.size(); i += step) one(i, thread);
      });
    }
    for (size_t i = 0; i < chunk.size(); ++i) {
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

void LogitsStage::sample_row(const InputBatch& batch, const LogitsRow& row,
                             std::span<const float> logits, Sampler& sampler, Outcome& outcome) {
  const RequestState& state = batch.request(static_cast<size_t>(row.request_index));
  outcome = {};
  if (!state.status.ok()) return;
  if (row.samples) {
    Result<SampleOutput> sampled =
        sampler.sample({.logits = logits,
                        .params = *state.params,
                        .state = state.sampler,
                        .position = row.position,
                        .num_output_tokens = row.position - state.num_prompt_tokens});
    outcome.status = sampled.status();
    if (sampled.ok()) outcome.output = std::move(*sampled);
    return;
  }
  Result<TokenLogprobs> logprobs = sampler.logprobs(
      logits, state.token_ids[static_cast<size_t>(row.position)], *state.params->prompt_logprobs);
  outcome.status = logprobs.status();
  if (logprobs.ok()) outcome.output.logprobs = std::move(*logprobs);
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
  const TokenId token = outcome.output.token_id;
  result.sampled_token_ids.push_back(token);
  if (outcome.output.logprobs) result.logprobs.push_back(std::move(*outcome.output.logprobs));
  state.token_ids.push_back(token);
  state.sampler.append(token);
}

}  // namespace quire
