// What the sampler must remember of one request between tokens. It is a function of the request's
// token ids alone, so it may be rebuilt at any time (after a preemption, say) without changing what
// is sampled.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"
#include "core/sampling_params.h"
#include "sample/transcript_filter.h"

namespace quire {

// Whether a request needs to know how often each token occurred.
bool uses_penalties(const SamplingParams& params);

// Penalties need how often each token occurred; bad words need the last few output tokens. Requests
// that use neither keep nothing. One thread at a time may use it.
class SamplerState {
 public:
  struct TokenCount {
    TokenId token_id = -1;
    int32_t num_output = 0;  // occurrences in the output; 0: in the prompt only
  };

  SamplerState() = default;
  // `token_ids` is the prompt, then output known so far (after a preemption).
  SamplerState(const SamplingParams& params, std::span<const TokenId> token_ids,
               int32_t num_prompt_tokens);

  // Tells of one more output token. Whoever keeps the request's tokens calls it once per token it
  // appends.
  void append(TokenId token_id);

  // Distinct tokens of prompt and output, in no particular order; empty when no penalty is on.
  std::span<const TokenCount> counts() const { return counts_; }
  // The last output tokens, as many as the longest bad word can look back on; oldest first.
  std::span<const TokenId> recent_output() const { return recent_output_; }
  // With SamplingParams::transcript_rules.
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
