// DeviceRows flattens what sample_rows() (kernels/api/sampling.h) reads of the requests of a step:
// it is the device's form of SamplingParams and SamplerState.
//
//   DeviceRows rows(vocab_size);
//   rows.add({.params = params, .position = p, …});       one per row of logits, in order
//   … copy each list to the device, where SampleRowsParams takes its pointers from …
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/sampling_params.h"
#include "kernels/api/sampling.h"

namespace quire {

struct DeviceRowInput {
  const SamplingParams& params;
  int32_t position = 0;           // of the new token in the request, prompt included
  int32_t num_output_tokens = 0;  // before it
  // The last output tokens, oldest first: SamplerState::recent_output(). There must be at least as
  // many as the longest bad word has before its last token, or all of them.
  std::span<const TokenId> recent_output = {};
  int32_t counts_slot = -1;   // for penalties: where the device counts this request's tokens
  TokenId forced_token = -1;  // >= 0: the row gives the logprobs of this prompt token
  int32_t num_logprobs = -1;  // alternatives; -1: no logprobs
  std::span<const uint32_t> token_mask = {};  // as SampleInput::token_mask
};

// Lists grow with add(), and clear() keeps their memory. One thread at a time may use it.
class DeviceRows {
 public:
  explicit DeviceRows(int64_t vocab_size) : vocab_size_(vocab_size) { clear(); }

  void clear();
  void add(const DeviceRowInput& input);

  std::vector<SampleRow> rows;
  std::vector<uint32_t> allowed_masks;  // [rows with allowed_token_ids, ceil(V / 32)]
  std::vector<uint32_t> token_masks;    // [rows with a token mask, ceil(V / 32)]
  std::vector<TokenId> bias_ids;
  std::vector<float> bias_values;
  std::vector<TokenId> forbidden_ids;
  std::vector<int32_t> bad_word_starts;  // one more than there are words
  std::vector<TokenId> bad_word_ids;
  std::vector<TokenId> recent_ids;

 private:
  void add_allowed(const std::vector<TokenId>& allowed, SampleRow& row);
  void add_token_mask(std::span<const uint32_t> mask, SampleRow& row);
  void add_biases(const SamplingParams& params, SampleRow& row);
  void add_bad_words(const DeviceRowInput& input, SampleRow& row);

  size_t num_words() const { return static_cast<size_t>((vocab_size_ + 31) / 32); }

  int64_t vocab_size_;
};

}  // namespace quire
