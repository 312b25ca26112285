// What requests change about their logits before a token is chosen: sample/logits_processors.h on a
// GPU, in the same order and with the same roundings.
#pragma once

#include "kernels/cuda/sampling/sampler_device.h"

namespace quire::cuda {

// Returns whether row `index` of `masks` has the token; index -1 has every token.
QUIRE_DEVICE bool has_token(const uint32_t* masks, int32_t index, int64_t vocab_size,
                            int64_t token) {
  if (index < 0) return true;
  const int64_t words = (vocab_size + 31) / 32;
  return (masks[index * words + token / 32] >> (token % 32) & 1u) != 0;
}

QUIRE_DEVICE bool is_allowed(const SampleRowsParams& p, const SampleRow& row, int64_t token) {
  return has_token(p.token_masks, row.mask_row, p.vocab_size, token) &&
         has_token(p.allowed_masks, row.allowed_row, p.vocab_size, token);
}

// The repetition penalty (prompt and output) divides positive logits and multiplies negative ones.
// The frequency and presence penalties (output only) are subtracted.
QUIRE_DEVICE float penalized(const SampleRowsParams& p, const SampleRow& row, int64_t token,
                             float logit) {
  if (row.counts_slot < 0) return logit;
  const uint32_t seen = p.token_counts[row.counts_slot * p.vocab_size + token];
  if (seen == 0) return logit;
  logit = logit > 0.0f ? ptx::divide(logit, row.repetition_penalty)
                       : ptx::multiply(logit, row.repetition_penalty);
  const uint32_t in_output = seen & ~kInPrompt;
  if (in_output == 0) return logit;
  logit = ptx::add(logit, -ptx::multiply(row.frequency_penalty, static_cast<float>(in_output)));
  return ptx::add(logit, -row.presence_penalty);
}

// Returns whether the tokens of a bad word before its last one have just been generated.
QUIRE_DEVICE bool completes_bad_word(const SampleRowsParams& p, const SampleRow& row, int32_t begin,
                                     int32_t end) {
  const int32_t prefix = end - begin - 1;
  if (prefix > row.recent_output.count) return false;
  const int32_t first = row.recent_output.first + row.recent_output.count - prefix;
  for (int32_t i = 0; i < prefix; ++i) {
    if (p.recent_ids[first + i] != p.bad_word_ids[begin + i]) return false;
  }
  return true;
}

// Writes single tokens of a processed row and marks them in `written`.
class RowPatch {
 public:
  QUIRE_DEVICE RowPatch(float* processed, int64_t size, uint32_t* written)
      : processed_(processed), size_(size), written_(written) {}

  QUIRE_DEVICE void put(int32_t token, float value) {
    if (token < 0 || token >= size_) return;
    processed_[token] = value;
    ptx::atomic_or(written_ + token / 32, 1u << (token % 32));
  }

 private:
  float* processed_;
  int64_t size_;
  uint32_t* written_;
};

// Writes the tokens that are named in lists.
QUIRE_DEVICE void patch_row(const SampleRowsParams& p, const SampleRow& row, const float* logits,
                            RowPatch patch) {
  const int threads = ptx::block_threads();
  for (int32_t i = ptx::thread_index(); i < row.biases.count; i += threads) {
    const TokenId* ids = p.bias_ids + row.biases.first;
    const TokenId token = ids[i];
    // The first entry of a token applies all its entries. Ids outside of the row are ignored.
    if (token < 0 || token >= p.vocab_size || (i > 0 && ids[i - 1] == token)) continue;
    float value = is_allowed(p, row, token) ? logits[token] : -ptx::infinity();
    for (int32_t j = i; j < row.biases.count && ids[j] == token; ++j)
      value = ptx::add(value, p.bias_values[row.biases.first + j]);
    patch.put(token, penalized(p, row, token, value));
  }
  ptx::sync_threads();  // a forbidden token stays forbidden whatever its bias
  for (int32_t i = ptx::thread_index(); i < row.forbidden.count; i += threads)
    patch.put(p.forbidden_ids[row.forbidden.first + i], -ptx::infinity());
  for (int32_t i = ptx::thread_index(); i < row.bad_words.count; i += threads) {
    const int32_t* starts = p.bad_word_starts + row.bad_words.first + i;
    if (completes_bad_word(p, row, starts[0], starts[1]))
      patch.put(p.bad_word_ids[starts[1] - 1], -ptx::infinity());
  }
  ptx::sync_threads();
}

// Fills `processed` from row.values, makes it the row, and scans it. Returns whether the logits
// themselves are all finite. `written` has a bit per token, in shared memory.
QUIRE_DEVICE bool adjust_row(const SampleRowsParams& p, const SampleRow& sample, float* processed,
                             uint32_t* written, SampleMemory& memory, LogitsRow& row) {
  for (int64_t i = ptx::thread_index(); i < (row.size + 31) / 32; i += ptx::block_threads())
    written[i] = 0;
  ptx::sync_threads();
  patch_row(p, sample, row.values, RowPatch(processed, row.size, written));
  int32_t bad = 0;
  for_each_chunk(row.num_chunks(), [&](int chunk, int64_t first, bool is_inside) {
    float x[4];
    load_four(row.values, first, is_inside ? row.size : 0, x);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int64_t token = first + i;
      if (token >= row.size) continue;
      bad |= is_finite(x[i]) ? 0 : 1;
      if ((written[token / 32] >> (token % 32) & 1u) != 0) {
        x[i] = processed[token];
      } else {
        x[i] = is_allowed(p, sample, token) ? penalized(p, sample, token, x[i]) : -ptx::infinity();
        processed[token] = x[i];
      }
    }
    store_chunk_max(x, chunk, is_inside, row.chunk_max);
  });
  const bool all_finite = block_add(bad, memory.ints) == 0;
  row.values = processed;
  find_row_max(row, memory);
  return all_finite;
}

// Fills `processed` with the logits of the tokens in the row's token mask and -infinity for others,
// makes it the row, and scans it. `logits` must be finite.
QUIRE_DEVICE void keep_masked_tokens(const SampleRowsParams& p, const SampleRow& sample,
                                     const float* logits, float* processed, SampleMemory& memory,
                                     LogitsRow& row) {
  for_each_chunk(row.num_chunks(), [&](int chunk, int64_t first, bool is_inside) {
    float x[4];
    load_four(logits, first, is_inside ? row.size : 0, x);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int64_t token = first + i;
      if (token >= row.size) continue;
      if (!has_token(p.token_masks, sample.mask_row, p.vocab_size, token)) x[i] = -ptx::infinity();
      processed[token] = x[i];
    }
    store_chunk_max(x, chunk, is_inside, row.chunk_max);
  });
  ptx::sync_threads();
  row.values = processed;
  find_row_max(row, memory);
}

}  // namespace quire::cuda
