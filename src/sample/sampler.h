// Sampler chooses one token from one row of logits.
//
// The order is: the token mask and the rules of transcripts; logprobs if wanted; allowed tokens,
// bad words, bias, penalties, min_tokens; then greedy argmax, or temperature -> min_p -> top_k ->
// top_p -> Gumbel-max. The result is a pure function of (logits, params, the request's own tokens,
// position): nothing else in the batch matters (law L4).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "core/sampling_params.h"
#include "core/step.h"
#include "device/isa.h"
#include "kernels/cpu/sampling/row_scan.h"
#include "sample/sampler_state.h"
#include "sample/selection.h"
#include "sample/top_p.h"

namespace quire {

// The errors of sampling from logits with NaN or infinity (kInternal), and of sampling when every
// token is forbidden (kInvalidArgument).
Status not_finite(int32_t position);
Status all_forbidden();

struct SampleInput {
  std::span<const float> logits;  // [V], as the model gave them
  const SamplingParams& params;
  // The state after all tokens before this one. sample() does not change it; the caller must
  // append() the token.
  const SamplerState& state;
  int32_t position =
      0;  // of the new token in the request, prompt included; with the seed the RNG's key
  int32_t num_output_tokens = 0;  // before this one
  // [ceil(V / 32)]: token t is part of the distribution if bit t % 32 of word t / 32 is set. Empty:
  // all tokens are.
  std::span<const uint32_t> token_mask = {};
};

struct SampleOutput {
  TokenId token_id = 0;
  std::optional<TokenLogprobs> logprobs;  // when params.logprobs is set
};

// Holds scratch rows, so that in steady state nothing is allocated but the returned logprobs. Use
// one per thread.
class Sampler {
 public:
  // The sampled tokens do not depend on `isa`.
  explicit Sampler(Isa isa = best_isa()) : scanner_(isa), top_p_(isa) {}

  // Allocates the scratch memory for rows of so many logits.
  void reserve(size_t vocab_size) {
    scanner_.reserve(vocab_size);
    top_p_.reserve(vocab_size);
    masked_.reserve(vocab_size);
    transcript_.reserve(vocab_size);
    processed_.reserve(vocab_size);
  }

  // kInternal: the logits are not finite. kInvalidArgument: the parameters or the mask forbid every
  // token. Both errors concern this request only.
  Result<SampleOutput> sample(const SampleInput& input);

  // Returns raw log-probability, rank and `num_top` alternatives (-1: all) of a token under
  // `logits` [V], for prompt logprobs. kInternal: the logits are not finite.
  Result<TokenLogprobs> logprobs(std::span<const float> logits, TokenId token_id, int32_t num_top);

 private:
  Result<TokenId> choose(const SampleInput& input, const ScannedRow& row);
  TokenId draw(const ScannedRow& row, const SamplingParams& params, int32_t position);
  float cut_off(const ScannedRow& row, LogitScale scale, const SamplingParams& params);

  RowScanner scanner_;
  std::vector<float> masked_;      // [V]
  std::vector<float> transcript_;  // [V]
  std::vector<float> processed_;   // [V]
  std::vector<Candidate> candidates_;
  TopP top_p_;
};

}  // namespace quire
