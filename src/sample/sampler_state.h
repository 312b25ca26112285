// SamplerState stores what the sampler needs of one request between tokens. It is a function of the
// request's token ids alone, so it can be rebuilt at any time (after a preemption, say) without
// changing what is sampled.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"
#include "core/sampling_params.h"
#include "sample/transcript_filter.h"

namespace quire {

// Returns whether the counts of a request's tokens are needed.
bool uses_penalties(const SamplingParams& params);

// Penalties need the counts of all tokens, bad words the last few output tokens. For requests with
// neither, nothing is stored. One thread at a time may use it.
class SamplerState {
 public:
  struct TokenCount {
    TokenId token_id = -1;
    int32_t num_output = 0;  // occurrences in the output; 0: in the prompt only
  };

  SamplerState() = default;
  // `token_ids` is the prompt, followed by the output so far (after a preemption).
  SamplerState(const SamplingParams& params, std::span<const TokenId> token_ids,
               int32_t num_prompt_tokens);

  // Adds an output token. Must be called once for each token that is appended to the request.
  void append(TokenId token_id);

  // Returns the distinct tokens of prompt and output, in no particular order; empty without
  // penalties.
  std::span<const TokenCount> counts() const { return counts_; }
  // Returns the last output tokens, oldest first: as many as the longest bad word needs.
  std::span<const TokenId> recent_output() const { return recent_output_; }
  // For SamplingParams::transcript_rules.
  const TranscriptProgress& transcript() const { return transcript_; }

 private:
  TokenCount& entry(TokenId token_id);
  void rehash(size_t num_slots);

  bool counting_ = false;
  size_t look_back_ = 0;
  std::vector<TokenCount> counts_;
  std::vector<int32_t>
      slots_;  // open addressing: index into counts_, or -1; size is a power of two
  std::vector<TokenId> recent_output_;
  std::shared_ptr<const TranscriptRules> transcript_rules_;
  TranscriptProgress transcript_;
};

}  // namespace quire
