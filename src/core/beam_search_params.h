// How a beam search ranks its beams, and when it ends.
#pragma once

#include <cstdint>
#include <optional>

namespace quire {

// Says when a search ends by Hugging Face's rule.
enum class EarlyStopping : uint8_t {
  kNo,     // once no running beam is likely to pass the worst finished one, as long as it is now
  kYes,    // once there are as many finished beams as the search is wide
  kNever,  // as kNo, but a running beam is thought as long as it may become
};

struct BeamSearchParams {
  // Beams are ranked by the sum of their log-probabilities / length ^ length_penalty.
  float length_penalty = 1.0f;
  // When it is not set, vLLM's rule holds. The length is that of prompt and output without EOS,
  // every EOS among the candidates of a beam finishes a copy of it, and beams run up to max_tokens.
  // When it is set, Hugging Face's rule holds. The length is that of the output with EOS, and only
  // EOS among the best candidates of all beams counts.
  std::optional<EarlyStopping> early_stopping;

  static constexpr float kMaxLengthPenalty = 16.0f;
};

}  // namespace quire
