// Work for drafters: prompts and forced answers, so that real steps and times are measured whatever
// tokens the model itself would sample.
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
  // Each stream's answer is forced to one of these. When there are none, the model decodes
  // greedily.
  std::vector<std::vector<TokenId>> answers;
  // Each draft is accepted with this probability, in [0, 1], whatever the model samples. When it is
  // negative, `answers` decide.
  double acceptance = -1;
};

// Returns work of random ids: an edit, which repeats its prompt with a few changes, and a text that
// repeats nothing. Each is run alone and in `num_streams` streams.
std::vector<SpeculationWork> made_up_work(int32_t vocab_size, int32_t num_tokens,
                                          int32_t num_streams, uint64_t seed);

// Returns work of random prompts whose drafts are accepted with a stated probability. It shows what
// a drafter's cost allows where random weights cannot show how often a drafter is right. It is run
// alone and in `num_streams` streams.
std::vector<SpeculationWork> work_of_acceptance(double acceptance, int32_t vocab_size,
                                                int32_t num_tokens, int32_t num_streams,
                                                uint64_t seed);

// Reads a file of JSON lines {"name": …, "prompt": …, "answer": …}. Lines with the same name form
// one work, whose streams run one after the other. A line without an answer takes the model's own.
Result<std::vector<SpeculationWork>> read_work(const std::string& path, const Tokenizer& tokenizer,
                                               int32_t max_tokens);

// Returns the request of one stream, whose answer has at most `max_tokens` tokens.
GenerationRequest work_request(const SpeculationWork& work, size_t stream, bool drafts,
                               int32_t vocab_size, int32_t max_tokens, const Clock& clock);

}  // namespace quire::bench
