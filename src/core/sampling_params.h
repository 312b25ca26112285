// What a client asks of generation. Defaults and bounds are those of the OpenAI API as vLLM serves
// it (/openapi.json); only validate() checks them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "core/transcript_rules.h"

namespace quire {

struct SamplingParams {
  int32_t max_tokens = 16;
  int32_t min_tokens = 0;

  float temperature = 1.0f;  // below kGreedyTemperature: greedy
  float top_p = 1.0f;        // (0, 1]
  int32_t top_k = 0;         // 0 or -1: off
  float min_p = 0.0f;        // [0, 1]
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  float repetition_penalty = 1.0f;
  std::vector<std::pair<TokenId, float>> logit_bias;
  std::optional<std::vector<TokenId>> allowed_token_ids;
  std::vector<std::vector<TokenId>> bad_words;  // each a token sequence that must not be completed
  // Key of the counter-based RNG: the same request with the same seed gives the same tokens. A
  // request without a seed gets a random one from the engine when it is submitted, so two such
  // requests differ.
  std::optional<uint64_t> seed;

  std::vector<std::string> stop;  // strings to find in the output text
  bool include_stop_str_in_output = false;
  std::vector<TokenId> stop_token_ids;
  std::vector<TokenId> eos_token_ids;  // from the model; empty: no EOS
  bool ignore_eos = false;
  bool skip_special_tokens = true;  // special tokens are left out of the text
  // If they are not left out: whether the decoder puts a space between two added tokens.
  bool spaces_between_special_tokens = true;

  // Number of alternatives per generated token and per prompt token; -1: the whole vocabulary;
  // nullopt: no logprobs.
  std::optional<int32_t> logprobs;
  std::optional<int32_t> prompt_logprobs;
  // If set, with logprobs, the alternatives listed for each generated token are these tokens,
  // however likely they are, instead of the most likely ones. At most kMaxLogprobTokenIds.
  std::vector<TokenId> logprob_token_ids;

  // The most drafts per step that are verified for the request; 0: none. Values above what the
  // engine drafts have no further effect.
  std::optional<int32_t> num_speculative_tokens;
  // Text that the client expects the output to repeat in parts, from which drafts are made.
  std::vector<TokenId> prediction_token_ids;

  // The rules of a speech model. The tokens that they forbid are no part of the distribution. Null:
  // no rules.
  std::shared_ptr<const TranscriptRules> transcript_rules = {};

  static constexpr int32_t kMaxLogprobTokenIds = 128;
  static constexpr float kGreedyTemperature = 1e-5f;
  // Temperatures below this one that are not greedy are raised to it: dividing by them would only
  // amplify noise.
  static constexpr float kMinTemperature = 0.01f;
  bool greedy() const { return temperature < kGreedyTemperature; }

  // Returns an error that names the first field out of bounds and says what was expected.
  Status validate(int32_t vocab_size, int32_t max_logprobs) const;
};

}  // namespace quire
