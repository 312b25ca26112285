// sample_rows() chooses a token for each row of logits on a GPU, as sample/ does on the CPU. It
// applies the token mask and computes logprobs when they are asked for. Then it applies allowed
// tokens, bad words, bias, penalties and min_tokens, and takes the greatest (greedy) or samples:
// temperature -> min_p -> top_k -> top_p -> Gumbel-max. A row's result is a pure function of that
// row (law L4). sample/device_rows.h fills the structs of a batch.
//
// Tokens and logprobs are the CPU's bit for bit, except for two roundings that almost never change
// a token:
//   top_p   the GPU sums mass exactly (in units of 2^-44), the CPU in float and double. A cut whose
//           mass is within 1e-6 of top_p may fall one distinct logit away.
//   noise   the logarithms of the Gumbel noise and of the total are the device's, which differ from
//           the host's by 1 ulp of a double.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "device/stream.h"

namespace quire {

// Entries [first, first + count) of a list that the rows of a batch share.
struct ListRange {
  int32_t first = 0;
  int32_t count = 0;
};

// One row of the batch, in device memory.
struct SampleRow {
  uint64_t seed = 0;
  int32_t position = 0;                 // of the new token; the RNG's key is the seed and this
  float inverse_temperature = 0.0f;     // 0: greedy
  float min_scaled = -3.402823466e38f;  // log(min_p): the least (logit - max) / temperature to keep
  float top_p = 1.0f;
  int32_t top_k = 0;  // 0: off
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  float repetition_penalty = 1.0f;
  int32_t counts_slot = -1;   // in SampleRowsParams::token_counts; -1: no penalties
  int32_t allowed_row = -1;   // in allowed_masks; -1: every token is allowed
  int32_t mask_row = -1;      // in token_masks; -1: every token is part of the distribution
  ListRange biases;           // in bias_ids and bias_values
  ListRange forbidden;        // in forbidden_ids: the stop tokens, below min_tokens
  ListRange bad_words;        // word numbers in bad_word_starts
  ListRange recent_output;    // in recent_ids: the last output tokens that are known, oldest first
  TokenId forced_token = -1;  // >= 0: not sampled; the row gives this token's logprobs
  int32_t num_logprobs = -1;  // top tokens to list, at most max_logprobs; -1: no logprobs at all
};

enum class SampleStatus : int32_t {
  kOk = 0,
  kNotFinite = 1,     // the logits hold NaN or infinity
  kAllForbidden = 2,  // no token may be sampled
};

struct SampledToken {
  TokenId token_id = -1;
  SampleStatus status = SampleStatus::kOk;
  float logprob = 0.0f;  // in the model's distribution; set when the row wants logprobs
  int32_t rank = 0;      // from 1; ties are ordered by id
};

// All pointers are device memory.
struct SampleRowsParams {
  const float* logits = nullptr;    // [R, V]; not changed
  const SampleRow* rows = nullptr;  // [R]
  int64_t num_rows = 0;
  int64_t vocab_size = 0;  // at most kMaxSampledVocab
  // [R, V] scratch for rows that is_processed() names; may be null when there are none.
  float* processed = nullptr;
  const uint32_t* allowed_masks = nullptr;  // [*, ceil(V / 32)]: bit i % 32 of word i / 32
  const uint32_t* token_masks = nullptr;    // the same layout; applied before logprobs
  const uint32_t* token_counts = nullptr;   // [slots, V], see count_tokens()
  const TokenId* bias_ids = nullptr;        // a row's entries with the same id are neighbours
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

// Returns whether the logits of a row are changed before a token is chosen.
constexpr bool is_processed(const SampleRow& row) {
  return row.counts_slot >= 0 || row.allowed_row >= 0 || row.mask_row >= 0 ||
         row.biases.count > 0 || row.forbidden.count > 0 || row.bad_words.count > 0;
}

// count_tokens() counts how often each token occurred in a request. A slot has one 32-bit word per
// token of the vocabulary: the count in the output, and the bit kInPrompt for a token of the
// prompt. The caller zeroes a slot before its first call.
inline constexpr uint32_t kInPrompt = 0x80000000u;
inline constexpr int64_t kSampledStride = sizeof(SampledToken) / sizeof(TokenId);
struct CountTokensParams {
  uint32_t* token_counts = nullptr;  // [slots, V]
  const int32_t* slots = nullptr;    // [n], negative ones are skipped; null: `slot` for all
  int32_t slot = 0;
  const TokenId* token_ids = nullptr;  // [n]; ids outside the vocabulary are skipped
  int64_t token_stride = 1;            // in ids; kSampledStride for an array of SampledToken
  int64_t num_tokens = 0;
  int64_t vocab_size = 0;
  bool in_prompt = false;  // set kInPrompt instead of counting
};
void count_tokens(Stream& stream, const CountTokensParams& params);

}  // namespace quire
