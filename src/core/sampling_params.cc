#include "core/sampling_params.h"

#include <cmath>

namespace quire {
namespace {

Status require(bool condition, std::string_view name, std::string_view expected, double got) {
  if (condition) return {};
  return invalid_argument("{}: expected {}, got {}", name, expected, got);
}

bool within(float x, float low, float high) { return std::isfinite(x) && x >= low && x <= high; }

Status check_ids(std::string_view name, const std::vector<TokenId>& ids, int32_t vocab_size) {
  for (const TokenId id : ids) {
    QUIRE_RETURN_IF_ERROR(require(id >= 0 && id < vocab_size, name,
                                  fmt::format("token ids in [0, {})", vocab_size), id));
  }
  return {};
}

// -1 asks for the whole vocabulary.
Status check_logprobs(std::string_view name, std::optional<int32_t> n, int32_t vocab_size,
                      int32_t max_logprobs) {
  if (!n) return {};
  QUIRE_RETURN_IF_ERROR(require(*n >= -1, name, "a number >= -1", *n));
  if (max_logprobs < 0) return {};
  return require((*n == -1 ? vocab_size : *n) <= max_logprobs, name,
                 fmt::format("at most {} (--max-logprobs)", max_logprobs), *n);
}

Status check_logprob_token_ids(const SamplingParams& params, int32_t vocab_size) {
  constexpr std::string_view kName = "logprob_token_ids";
  const std::vector<TokenId>& ids = params.logprob_token_ids;
  if (ids.empty()) return {};
  if (!params.logprobs) return invalid_argument("{}: expected logprobs beside it", kName);
  QUIRE_RETURN_IF_ERROR(require(ids.size() <= SamplingParams::kMaxLogprobTokenIds, kName,
                                fmt::format("at most {} ids", SamplingParams::kMaxLogprobTokenIds),
                                static_cast<double>(ids.size())));
  return check_ids(kName, ids, vocab_size);
}

Status check_transcript_rules(const TranscriptRules* rules, int32_t vocab_size) {
  constexpr std::string_view kName = "transcript_rules";
  if (rules == nullptr) return {};
  QUIRE_RETURN_IF_ERROR(check_ids(kName, rules->suppressed, vocab_size));
  QUIRE_RETURN_IF_ERROR(check_ids(kName, rules->suppressed_first, vocab_size));
  if (!rules->has_timestamps()) return {};
  return check_ids(kName, {rules->first_timestamp, rules->no_timestamps, rules->end_of_text},
                   vocab_size);
}

}  // namespace

Status SamplingParams::validate(int32_t vocab_size, int32_t max_logprobs) const {
  QUIRE_RETURN_IF_ERROR(require(max_tokens >= 0, "max_tokens", "a number >= 0", max_tokens));
  QUIRE_RETURN_IF_ERROR(require(min_tokens >= 0 && min_tokens <= max_tokens, "min_tokens",
                                fmt::format("0 <= min_tokens <= max_tokens ({})", max_tokens),
                                min_tokens));
  QUIRE_RETURN_IF_ERROR(
      require(within(temperature, 0, 2), "temperature", "a number in [0, 2]", temperature));
  QUIRE_RETURN_IF_ERROR(
      require(within(top_p, 0, 1) && top_p > 0, "top_p", "a number in (0, 1]", top_p));
  QUIRE_RETURN_IF_ERROR(require(top_k >= -1, "top_k", "0 or -1 (off) or more", top_k));
  QUIRE_RETURN_IF_ERROR(require(within(min_p, 0, 1), "min_p", "a number in [0, 1]", min_p));
  QUIRE_RETURN_IF_ERROR(require(within(presence_penalty, -2, 2), "presence_penalty",
                                "a number in [-2, 2]", presence_penalty));
  QUIRE_RETURN_IF_ERROR(require(within(frequency_penalty, -2, 2), "frequency_penalty",
                                "a number in [-2, 2]", frequency_penalty));
  QUIRE_RETURN_IF_ERROR(require(std::isfinite(repetition_penalty) && repetition_penalty > 0,
                                "repetition_penalty", "a finite number > 0", repetition_penalty));
  for (const auto& [id, bias] : logit_bias) {
    QUIRE_RETURN_IF_ERROR(require(id >= 0 && id < vocab_size, "logit_bias",
                                  fmt::format("token ids in [0, {})", vocab_size), id));
    QUIRE_RETURN_IF_ERROR(require(std::isfinite(bias), "logit_bias", "finite numbers", bias));
  }
  if (allowed_token_ids) {
    QUIRE_RETURN_IF_ERROR(
        require(!allowed_token_ids->empty(), "allowed_token_ids", "at least one id", 0));
    QUIRE_RETURN_IF_ERROR(check_ids("allowed_token_ids", *allowed_token_ids, vocab_size));
  }
  for (const auto& word : bad_words) {
    QUIRE_RETURN_IF_ERROR(require(!word.empty(), "bad_words", "non-empty entries", 0));
    QUIRE_RETURN_IF_ERROR(check_ids("bad_words", word, vocab_size));
  }
  for (const std::string& text : stop) {
    QUIRE_RETURN_IF_ERROR(require(!text.empty(), "stop", "non-empty strings", 0));
  }
  QUIRE_RETURN_IF_ERROR(check_logprobs("logprobs", logprobs, vocab_size, max_logprobs));
  QUIRE_RETURN_IF_ERROR(check_logprob_token_ids(*this, vocab_size));
  QUIRE_RETURN_IF_ERROR(check_ids("prediction", prediction_token_ids, vocab_size));
  QUIRE_RETURN_IF_ERROR(check_transcript_rules(transcript_rules.get(), vocab_size));
  QUIRE_RETURN_IF_ERROR(require(num_speculative_tokens.value_or(0) >= 0, "num_speculative_tokens",
                                "a number >= 0", num_speculative_tokens.value_or(0)));
  return check_logprobs("prompt_logprobs", prompt_logprobs, vocab_size, max_logprobs);
}

}  // namespace quire
