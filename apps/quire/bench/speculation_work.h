// Work for drafts: prompts with the answers that are made to come out, so that real steps and times
// are measured whatever the model would say.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/output/generation.h"
#include "tokenizer/tokenizer.h"

namespace quire::bench {

struct SpeculationWork {
  std::string name;
  int32_t num_streams = 1;
  std::vector<std::vector<TokenId>> prompts;  // of the streams
  // These answers are forced; when there are none, the model answers as it likes, greedily.
  std::vector<std::vector<TokenId>> answers;
  // Each draft comes out with this probability, in [0, 1], whatever the model says. When it is
  // negative, the answers decide.
  double acceptance = -1;
};

// Makes work of random ids: an edit, which repeats its prompt but for a few places, and a text that
// repeats nothing, each alone and in `num_streams` streams.
std::vector<SpeculationWork> made_up_work(int32_t vocab_size, int32_t num_tokens,
                                          int32_t num_streams, uint64_t seed);

// Random prompts behind which drafts come out with a stated probability: what a drafter's cost allows
// where random weights say nothing of how often it is right. Alone and in `num_streams` streams.
std::vector<SpeculationWork> work_of_acceptance(double acceptance, int32_t vocab_size,
                                                int32_t num_tokens, int32_t num_streams,
                                                uint64_t seed);

// From a file of JSON lines {"name": …, "prompt": …, "answer": …}; lines with one name are one work,
// of which the streams are run one after the other. Without answer the model's own comes out.
Result<std::vector<SpeculationWork>> read_work(const std::string& path, const Tokenizer& tokenizer,
                                               int32_t max_tokens);

// The request of one stream, at most `max_tokens` tokens long.
GenerationRequest work_request(const SpeculationWork& work, size_t stream, bool drafts,
                               int32_t vocab_size, int32_t max_tokens, const Clock& clock);

}  // namespace quire::bench
