// Removes the tokens that TranscriptRules forbid at this place of a transcript from rows of logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/transcript_rules.h"

namespace quire {

// What the rules need of the tokens so far, and a function of these alone.
struct TranscriptProgress {
  int32_t num_tokens = 0;  // of the output
  TokenId last = -1;
  TokenId before_last = -1;
  TokenId last_timestamp = -1;

  void append(const TranscriptRules& rules, TokenId token_id);
};

// Writes `logits` [V] to `row` (resized; its capacity is reused), with -infinity for each forbidden
// token. If all timestamps together are likelier than the likeliest text token, text is forbidden,
// too.
void apply_transcript_rules(std::span<const float> logits, const TranscriptRules& rules,
                            const TranscriptProgress& progress, std::vector<float>& row);

}  // namespace quire
