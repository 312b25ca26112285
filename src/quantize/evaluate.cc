#include "quantize/evaluate.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "exec/model_runner.h"

namespace quire {
namespace {

// Returns the log of the sum of exponentials.
double log_sum(std::span<const float> row) {
  const float largest = *std::max_element(row.begin(), row.end());
  double sum = 0.0;
  for (const float x : row) sum += std::exp(static_cast<double>(x) - largest);
  return largest + std::log(sum);
}

StepPlan one_request(std::span<const TokenId> tokens, const KvSpec& kv) {
  const RequestId id{1};
  const auto num_tokens = static_cast<int32_t>(tokens.size());
  auto params = std::make_shared<SamplingParams>();
  params->temperature = 0.0f;
  params->prompt_logprobs = 0;  // so that every row is computed
  StepPlan plan;
  plan.new_requests.push_back({id, {tokens.begin(), tokens.end()}, num_tokens, params});
  plan.scheduled.push_back({id, 0, num_tokens});
  plan.total_num_scheduled_tokens = num_tokens;
  int32_t next_block = 1;
  for (int32_t group = 0; group < static_cast<int32_t>(kv.groups.size()); ++group) {
    for (int32_t i = 0; i * kv.block_size < num_tokens; ++i) {
      plan.block_updates.push_back({0, group, i, BlockId{next_block++}});
    }
  }
  return plan;
}

}  // namespace

std::span<const float> TextLogits::row(int64_t i) const {
  return std::span(logits).subspan(static_cast<size_t>(i * vocab_size),
                                   static_cast<size_t>(vocab_size));
}

Result<TextLogits> text_logits(ModelRunnerOptions options, std::span<const TokenId> tokens) {
  const auto num_tokens = static_cast<int64_t>(tokens.size());
  QUIRE_CHECK(num_tokens >= 2, "{} tokens say nothing of what comes next", num_tokens);
  TextLogits result;
  result.next.assign(tokens.begin() + 1, tokens.end());
  options.max_num_batched_tokens = num_tokens;
  options.max_num_seqs = 1;
  options.max_model_len = num_tokens + 1;
  options.on_logits = [&](RequestId, int32_t position, std::span<const float> logits) {
    const int64_t row = position - 1;  // the row that predicts the token at `position`
    if (row >= result.num_rows()) return;
    result.vocab_size = static_cast<int64_t>(logits.size());
    result.logits.resize(static_cast<size_t>(result.num_rows() * result.vocab_size));
    std::copy(logits.begin(), logits.end(), result.logits.begin() + row * result.vocab_size);
  };
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<ModelRunner> runner, ModelRunner::create(options));
  const KvSpec kv = runner->kv_spec();
  const int64_t blocks_per_group = (num_tokens + 1 + kv.block_size - 1) / kv.block_size;
  const auto num_blocks =
      static_cast<int32_t>(1 + blocks_per_group * static_cast<int64_t>(kv.groups.size()));
  QUIRE_RETURN_IF_ERROR(runner->initialize({.num_blocks = num_blocks}));
  QUIRE_ASSIGN_OR_RETURN(const StepResult step, runner->execute(one_request(tokens, kv)));
  QUIRE_RETURN_IF_ERROR(step.requests.front().status);
  return result;
}

LogitComparison compare_logits(const TextLogits& source, const TextLogits& quantized) {
  QUIRE_CHECK(source.vocab_size == quantized.vocab_size && source.next == quantized.next);
  LogitComparison result;
  result.num_rows = source.num_rows();
  double source_loss = 0.0, loss = 0.0;
  for (int64_t i = 0; i < result.num_rows; ++i) {
    const auto p = source.row(i), q = quantized.row(i);
    const double p_sum = log_sum(p), q_sum = log_sum(q);
    const auto next = static_cast<size_t>(source.next[static_cast<size_t>(i)]);
    source_loss += p_sum - p[next];
    loss += q_sum - q[next];
    double difference = 0.0, norm = 0.0, divergence = 0.0;
    for (size_t v = 0; v < p.size(); ++v) {
      difference += std::pow(double{p[v]} - q[v], 2);
      norm += std::pow(double{p[v]}, 2);
      divergence += std::exp(p[v] - p_sum) * ((p[v] - p_sum) - (q[v] - q_sum));
    }
    result.relative_error += norm > 0.0 ? std::sqrt(difference / norm) : 0.0;
    result.kl_divergence += divergence;
    const auto best = std::max_element(p.begin(), p.end()) - p.begin();
    result.same_best_token += std::max_element(q.begin(), q.end()) - q.begin() == best ? 1.0 : 0.0;
  }
  const auto rows = static_cast<double>(result.num_rows);
  result.source_perplexity = std::exp(source_loss / rows);
  result.perplexity = std::exp(loss / rows);
  result.relative_error /= rows;
  result.kl_divergence /= rows;
  result.same_best_token /= rows;
  return result;
}

}  // namespace quire
