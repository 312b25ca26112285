// From rows of logits to tokens on a GPU, as sample/ does it on the CPU: the token mask; logprobs
// when asked for; allowed tokens, bad words, bias, penalties, min_tokens; then greedy argmax, or
// temperature
// -> min_p -> top_k -> top_p -> Gumbel-max. A row's result is a pure function of that row (law L4).
// sample/device_rows.h makes the structs of a batch.
//
// The CPU's tokens and logprobs, bit for bit, but for two roundings that almost never decide:
//   top_p     mass is summed here exactly (in units of 2^-44), there in float and double; a cut
//   whose
//             mass is within 1e-6 of top_p may fall one distinct logit away
//   noise     the logarithms of Gumbel noise and of the total are those of the device, 1 ulp of a
//             double from the host's
// For GPUs: the CPU samples in sample/.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "device/stream.h"

namespace quire {

// Entries [first, first + count) of a list of the batch.
struct ListRange {
  int32_t first = 0;
  int32_t count = 0;
};

// One row of the batch; lies in device memory.
struct SampleRow {
  uint64_t seed = 0;
  int32_t position = 0;              // of the new token; with the seed the key of the RNG
  float inverse_temperature = 0.0f;  // 0: greedy
  float min_scaled =
      -3.402823466e38f;  // log(min_p): least (logit - max) / temperature that is kept
  float top_p = 1.0f;
  int32_t top_k = 0;  // 0: off
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  float repetition_penalty = 1.0f;
  int32_t counts_slot = -1;  // of SamplingParams' token_counts; -1: no penalties
  int32_t allowed_row = -1;  // of allowed_masks; -1: every token is allowed
  int32_t mask_row = -1;     // of token_masks; -1: every token is part of the distribution
  ListRange biases;
  ListRange forbidden;        // ids: min_tokens' stop tokens
  ListRange bad_words;        // indices of words
  ListRange recent_output;    // the request's last output tokens, oldest first, as far as known
  TokenId forced_token = -1;  // >= 0: nothing is sampled, the row is for this token's logprobs
  int32_t num_logprobs = -1;  // alternatives to list, at most max_logprobs; -1: no logprobs at all
};

enum class SampleStatus : int32_t {
  kOk = 0,
  kNotFinite = 1,     // the logits hold NaN or infinity
  kAllForbidden = 2,  // no token may be sampled
};

struct SampledToken {
  TokenId token_id = -1;
  SampleStatus status = SampleStatus::kOk;
  float logprob = 0.0f;  // of the model's distribution, when asked for
  int32_t rank = 0;      // from 1; ties are ordered by id
};

// All pointers are device memory.
struct SampleRowsParams {
  const float* logits = nullptr;    // [R, V]; not changed
  const SampleRow* rows = nullptr;  // [R]
  int64_t num_rows = 0;
  int64_t vocab_size = 0;                   // at most kMaxSampledVocab
  float* processed = nullptr;               // [R, V] scratch of rows that are_processed(); may be
                                            // null when there are none
  const uint32_t* allowed_masks = nullptr;  // [*, ceil(V / 32)]: bit i % 32 of word i / 32
  const uint32_t* token_masks = nullptr;    // the same; logprobs heed them too
  const uint32_t* token_counts = nullptr;   // [slots, V], see count_tokens()
  const TokenId* bias_ids = nullptr;        // the same id only in neighbouring entries of a row
  const float* bias_values = nullptr;
  const TokenId* forbidden_ids = nullptr;
  const int32_t* bad_word_starts = nullptr;  // word w: bad_word_ids[starts[w], starts[w + 1])
  const TokenId* bad_word_ids = nullptr;
  const TokenId* recent_ids = nullptr;
  SampledToken* out = nullptr;  // [R]
  int32_t max_logprobs = 0;
  TokenId* top_ids = nullptr;     // [R, max_logprobs], the likeliest first
  float* top_logprobs = nullptr;  // [R, max_logprobs]
};
void sample_rows(Stream& stream, const SampleRowsParams& params);

inline constexpr int64_t kMaxSampledVocab = int64_t{1} << 19;

// Whether the logits of a row are changed before a token is chosen.
constexpr bool is_processed(const SampleRow& row) {
  return row.counts_slot >= 0 || row.allowed_row >= 0 || row.mask_row >= 0 ||
         row.biases.count > 0 || row.forbidden.count > 0 || row.bad_words.count > 0;
}

// How often each token occurred in a request, one word per token of the vocabulary: the count of
// the output, and a bit for the prompt. Slots start as zeros.
inline constexpr uint32_t kInPrompt = 0x80000000u;
inline constexpr int64_t kSampledStride = sizeof(SampledToken) / sizeof(TokenId);
struct CountTokensParams {
  uint32_t* token_counts = nullptr;  // [slots, V]
  const int32_t* slots = nullptr;    // [n]; negative: skipped; null: all are of `slot`
  int32_t slot = 0;
  const TokenId* token_ids = nullptr;  // [n]; ids outside of the vocabulary are skipped
  int64_t token_stride = 1;            // ids between them: kSampledStride counts SampledTokens
  int64_t num_tokens = 0;
  int64_t vocab_size = 0;
  bool in_prompt = false;  // sets kInPrompt instead of counting
};
void count_tokens(Stream& stream, const CountTokensParams& params);

}  // namespace quire
