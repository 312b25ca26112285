// From one row of logits to one token.
//
// Order: the token mask and the rules of transcripts; logprobs when asked for; allowed tokens, bad
// words, bias, penalties, min_tokens; then greedy argmax, or temperature -> min_p -> top_k -> top_p ->
// Gumbel-max. A pure function of (logits, params, the request's own tokens, position): what else is in
// the batch cannot matter (law L4).
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

// What sampling from logits with NaN or infinity says (kInternal), and sampling where every token
// is forbidden (kInvalidArgument).
Status not_finite(int32_t position);
Status all_forbidden();

struct SampleInput {
  std::span<const float> logits;  // [V], as the model gave them
  const SamplingParams& params;
  const SamplerState& state;  // of all tokens before this one; sample() does not change it:
                              // append() the token after
  int32_t position =
      0;  // of the new token in the request, prompt included; with the seed the RNG's key
  int32_t num_output_tokens = 0;  // before this one
  // [ceil(V / 32)], bit t % 32 of word t / 32: token t is part of the distribution. Empty: all are.
  std::span<const uint32_t> token_mask = {};
};

struct SampleOutput {
  TokenId token_id = 0;
  std::optional<TokenLogprobs> logprobs;  // when params.logprobs is set
};

// Holds scratch rows, so that nothing is allocated in steady state but the logprobs that are
// returned. One per thread.
class Sampler {
 public:
  // What is sampled does not depend on `isa`.
  explicit Sampler(Isa isa = best_isa()) : scanner_(isa), top_p_(isa) {}

  // Takes the memory for rows of so many logits at once.
  void reserve(size_t vocab_size) {
    scanner_.reserve(vocab_size);
    top_p_.reserve(vocab_size);
    masked_.reserve(vocab_size);
    processed_.reserve(vocab_size);
  }

  // kInternal: non-finite logits. kInvalidArgument: the parameters or the mask forbid every token.
  // Either fails this request only.
  Result<SampleOutput> sample(const SampleInput& input);

  // Raw log-probability, rank and `num_top` alternatives (-1: all) of a token under `logits` [V]:
  // for prompt logprobs. kInternal: non-finite logits.
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
