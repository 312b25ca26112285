#include "sample/device_rows.h"

#include <algorithm>
#include <cmath>

#include "sample/sampler.h"

namespace quire {
namespace {

template <typename T>
int32_t size_of(const std::vector<T>& list) {
  return static_cast<int32_t>(list.size());
}

}  // namespace

void DeviceRows::clear() {
  rows.clear();
  allowed_masks.clear();
  token_masks.clear();
  bias_ids.clear();
  bias_values.clear();
  forbidden_ids.clear();
  bad_word_starts.assign(1, 0);
  bad_word_ids.clear();
  recent_ids.clear();
}

void DeviceRows::add(const DeviceRowInput& input) {
  const SamplingParams& params = input.params;
  SampleRow row;
  row.seed = params.seed.value_or(0);
  row.position = input.position;
  row.inverse_temperature =
      params.greedy() ? 0.0f : 1.0f / std::max(params.temperature, SamplingParams::kMinTemperature);
  if (params.min_p > 0) row.min_scaled = std::min(0.0f, std::log(params.min_p));
  row.top_p = params.top_p;
  row.top_k = std::max(0, params.top_k);
  row.presence_penalty = params.presence_penalty;
  row.frequency_penalty = params.frequency_penalty;
  row.repetition_penalty = params.repetition_penalty;
  row.counts_slot = uses_penalties(params) ? input.counts_slot : -1;
  row.forced_token = input.forced_token;
  row.num_logprobs = input.num_logprobs;
  if (params.allowed_token_ids) add_allowed(*params.allowed_token_ids, row);
  if (!input.token_mask.empty()) add_token_mask(input.token_mask, row);
  add_biases(params, row);
  add_bad_words(input, row);
  row.forbidden.first = size_of(forbidden_ids);
  if (input.num_output_tokens < params.min_tokens) {
    for (const auto* ids : {&params.eos_token_ids, &params.stop_token_ids})
      forbidden_ids.insert(forbidden_ids.end(), ids->begin(), ids->end());
  }
  row.forbidden.count = size_of(forbidden_ids) - row.forbidden.first;
  rows.push_back(row);
}

void DeviceRows::add_allowed(const std::vector<TokenId>& allowed, SampleRow& row) {
  const size_t first = allowed_masks.size();
  row.allowed_row = static_cast<int32_t>(first / num_words());
  allowed_masks.resize(first + num_words(), 0);
  for (const TokenId id : allowed) {
    if (id >= 0 && id < vocab_size_)
      allowed_masks[first + static_cast<size_t>(id) / 32] |= 1u << (id % 32);
  }
}

void DeviceRows::add_token_mask(std::span<const uint32_t> mask, SampleRow& row) {
  row.mask_row = static_cast<int32_t>(token_masks.size() / num_words());
  token_masks.insert(token_masks.end(), mask.begin(), mask.end());
}

// The biases of one token are put side by side, in the order of the request.
void DeviceRows::add_biases(const SamplingParams& params, SampleRow& row) {
  std::vector<std::pair<TokenId, float>> biases = params.logit_bias;
  std::stable_sort(biases.begin(), biases.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  row.biases = {size_of(bias_ids), size_of(biases)};
  for (const auto& [id, bias] : biases) {
    bias_ids.push_back(id);
    bias_values.push_back(bias);
  }
}

void DeviceRows::add_bad_words(const DeviceRowInput& input, SampleRow& row) {
  row.bad_words = {size_of(bad_word_starts) - 1, size_of(input.params.bad_words)};
  for (const auto& word : input.params.bad_words) {
    bad_word_ids.insert(bad_word_ids.end(), word.begin(), word.end());
    bad_word_starts.push_back(size_of(bad_word_ids));
  }
  row.recent_output = {size_of(recent_ids), static_cast<int32_t>(input.recent_output.size())};
  recent_ids.insert(recent_ids.end(), input.recent_output.begin(), input.recent_output.end());
}

}  // namespace quire
