// How a beam search ranks its beams, and when it ends.
#pragma once

#include <cstdint>
#include <optional>

namespace quire {

// When a search ends by Hugging Face's rule.
enum class EarlyStopping : uint8_t {
  kNo,     // when no running beam, at its present length, is likely to pass the worst finished one
  kYes,    // when there are as many finished beams as the search is wide
  kNever,  // like kNo, but each running beam is rated at the greatest length that it can reach
};

struct BeamSearchParams {
  // Beams are ranked by the sum of their log-probabilities / length ^ length_penalty.
  float length_penalty = 1.0f;
  // When this is not set, vLLM's rule holds: the length is that of prompt and output without EOS,
  // every EOS among the candidates of a beam finishes a copy of it, and beams run up to max_tokens.
  // When it is set, Hugging Face's rule holds: the length is that of the output with EOS, and only
  // an EOS among the best candidates of all beams counts.
  std::optional<EarlyStopping> early_stopping;

  static constexpr float kMaxLengthPenalty = 16.0f;
};

}  // namespace quire
