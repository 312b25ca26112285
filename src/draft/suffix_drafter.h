// Drafts from the request's own text, and from what its client predicts, by a suffix automaton of
// both: what followed the longest end of the text when it stood there before. Where the model has said
// a longer end of it in an answer that has ended, what followed there.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "draft/drafter.h"
#include "draft/shared_suffixes.h"
#include "draft/suffix_automaton.h"

namespace quire {

class SuffixDrafter final : public Drafter {
 public:
  struct Options {
    // There are at most so many drafts per matching token, as in vLLM's
    // suffix_decoding_max_spec_factor.
    double max_spec_factor = 1.0;
    // Automata are kept up to this much memory, a quarter of it for answers that have ended. Requests
    // beyond it get no drafts.
    int64_t max_memory_bytes = int64_t{64} << 20;
  };
  static constexpr DraftSource kSharedSource = 17;  // and those behind it

  explicit SuffixDrafter(const Options& options)
      : options_(options), shared_(options.max_memory_bytes / 4) {}

  void propose(std::span<DraftQuery> queries) override;
  void forget(RequestId id) override;

  int64_t memory_bytes() const { return memory_bytes_ + shared_.memory_bytes(); }

 private:
  struct Text {
    SuffixAutomaton automaton;
    int32_t output_begin = 0;  // of the request's output in it
    std::string salt;
    SharedSuffixes::Reader reader;
  };
  void propose(DraftQuery& query);
  Text* text_of(const Request& request);

  const Options options_;
  std::unordered_map<RequestId, Text> texts_;
  int64_t memory_bytes_ = 0;  // of their automata
  SharedSuffixes shared_;
};

}  // namespace quire
