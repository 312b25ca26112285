#include "sample/logits_processors.h"

#include <algorithm>
#include <limits>

namespace quire {
namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

bool inside(const std::vector<float>& row, TokenId id) {
  return id >= 0 && static_cast<size_t>(id) < row.size();
}

void forbid(std::vector<float>& row, std::span<const TokenId> ids) {
  for (const TokenId id : ids) {
    if (inside(row, id)) row[static_cast<size_t>(id)] = kForbidden;
  }
}

void copy_allowed(std::span<const float> logits, const SamplingParams& params,
                  std::vector<float>& row) {
  if (!params.allowed_token_ids) {
    row.assign(logits.begin(), logits.end());
    return;
  }
  row.assign(logits.size(), kForbidden);
  for (const TokenId id : *params.allowed_token_ids) {
    if (inside(row, id)) row[static_cast<size_t>(id)] = logits[static_cast<size_t>(id)];
  }
}

// Forbids the last token of each bad word whose other tokens have just been generated.
void forbid_bad_words(const SamplingParams& params, const SamplerState& state,
                      std::vector<float>& row) {
  const std::span<const TokenId> recent = state.recent_output();
  for (const auto& word : params.bad_words) {
    const auto prefix = std::span(word).first(word.size() - 1);
    if (prefix.size() > recent.size()) continue;
    const auto tail = recent.last(prefix.size());
    if (std::equal(prefix.begin(), prefix.end(), tail.begin())) forbid(row, {{word.back()}});
  }
}

void add_bias(const SamplingParams& params, std::vector<float>& row) {
  for (const auto& [id, bias] : params.logit_bias) {
    if (inside(row, id)) row[static_cast<size_t>(id)] += bias;
  }
}

// The repetition penalty (prompt and output) divides positive logits and multiplies negative ones;
// frequency and presence penalties (output only) are subtracted.
void penalize(const SamplingParams& params, const SamplerState& state, std::vector<float>& row) {
  for (const SamplerState::TokenCount& seen : state.counts()) {
    if (!inside(row, seen.token_id)) continue;
    float& logit = row[static_cast<size_t>(seen.token_id)];
    logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    if (seen.num_output == 0) continue;
    logit -= params.frequency_penalty * static_cast<float>(seen.num_output);
    logit -= params.presence_penalty;
  }
}

}  // namespace

bool needs_processing(const SamplingParams& params, int32_t num_output_tokens) {
  return params.allowed_token_ids.has_value() || !params.bad_words.empty() ||
         !params.logit_bias.empty() || params.repetition_penalty != 1 ||
         params.frequency_penalty != 0 || params.presence_penalty != 0 ||
         num_output_tokens < params.min_tokens;
}

bool wants_greatest(const SamplingParams& params, int32_t num_output_tokens) {
  return params.greedy() && !params.logprobs && params.transcript_rules == nullptr &&
         !needs_processing(params, num_output_tokens);
}

void process_logits(std::span<const float> logits, const SamplingParams& params,
                    const SamplerState& state, int32_t num_output_tokens, std::vector<float>& row) {
  copy_allowed(logits, params, row);
  forbid_bad_words(params, state, row);
  add_bias(params, row);
  penalize(params, state, row);
  if (num_output_tokens < params.min_tokens) {
    forbid(row, params.eos_token_ids);
    forbid(row, params.stop_token_ids);
  }
}

}  // namespace quire
