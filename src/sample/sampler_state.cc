#include "sample/sampler_state.h"

#include <algorithm>
#include <bit>

namespace quire {
namespace {

size_t slot_of(TokenId token_id, size_t num_slots) {
  return (static_cast<uint32_t>(token_id) * 0x9E3779B1u) & (num_slots - 1);
}

}  // namespace

bool uses_penalties(const SamplingParams& params) {
  return params.presence_penalty != 0 || params.frequency_penalty != 0 ||
         params.repetition_penalty != 1;
}

SamplerState::SamplerState(const SamplingParams& params, std::span<const TokenId> token_ids,
                           int32_t num_prompt_tokens)
    : counting_(uses_penalties(params)), transcript_rules_(params.transcript_rules) {
  for (const auto& word : params.bad_words) look_back_ = std::max(look_back_, word.size() - 1);
  recent_output_.reserve(look_back_);
  const auto num_prompt = static_cast<size_t>(num_prompt_tokens);
  if (counting_) {
    // Every further token may be a new one, so the table is allocated for this many; longer outputs
    // make it grow.
    constexpr int64_t kMostExpected = 8192;
    const int64_t expected =
        std::min<int64_t>(int64_t{num_prompt_tokens} + params.max_tokens, kMostExpected);
    rehash(
        std::bit_ceil(std::max({size_t{64}, token_ids.size(), 2 * static_cast<size_t>(expected)})));
    for (const TokenId id : token_ids.first(num_prompt)) entry(id);
  }
  for (const TokenId id : token_ids.subspan(num_prompt)) append(id);
}

void SamplerState::append(TokenId token_id) {
  if (counting_) ++entry(token_id).num_output;
  if (transcript_rules_ != nullptr) transcript_.append(*transcript_rules_, token_id);
  if (look_back_ == 0) return;
  if (recent_output_.size() == look_back_) recent_output_.erase(recent_output_.begin());
  recent_output_.push_back(token_id);
}

SamplerState::TokenCount& SamplerState::entry(TokenId token_id) {
  for (size_t slot = slot_of(token_id, slots_.size());; slot = (slot + 1) & (slots_.size() - 1)) {
    const int32_t index = slots_[slot];
    if (index >= 0 && counts_[static_cast<size_t>(index)].token_id != token_id) continue;
    if (index >= 0) return counts_[static_cast<size_t>(index)];
    if (2 * counts_.size() >= slots_.size()) {
      rehash(2 * slots_.size());
      return entry(token_id);
    }
    slots_[slot] = static_cast<int32_t>(counts_.size());
    return counts_.emplace_back(TokenCount{token_id, 0});
  }
}

void SamplerState::rehash(size_t num_slots) {
  slots_.assign(num_slots, -1);
  counts_.reserve(num_slots / 2 + 1);
  for (size_t i = 0; i < counts_.size(); ++i) {
    size_t slot = slot_of(counts_[i].token_id, num_slots);
    while (slots_[slot] >= 0) slot = (slot + 1) & (num_slots - 1);
    slots_[slot] = static_cast<int32_t>(i);
  }
}

}  // namespace quire
