// Drafts from the request's own text, and from what its client predicts, by a suffix automaton of
// both: what followed the longest end of the text when it stood there before.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "draft/drafter.h"
#include "draft/suffix_automaton.h"

namespace quire {

class SuffixDrafter final : public Drafter {
 public:
  struct Options {
    // As vLLM's suffix_decoding_max_spec_factor: at most so many drafts per matching token.
    double max_spec_factor = 1.0;
    // Automata are kept up to this much memory. Requests beyond it get no drafts.
    int64_t max_memory_bytes = int64_t{64} << 20;
  };
  explicit SuffixDrafter(const Options& options) : options_(options) {}

  void propose(std::span<DraftQuery> queries) override;
  void forget(RequestId id) override;

  int64_t memory_bytes() const { return memory_bytes_; }

 private:
  void propose(DraftQuery& query);
  const SuffixAutomaton* automaton_of(const Request& request);

  const Options options_;
  std::unordered_map<RequestId, SuffixAutomaton> automata_;
  int64_t memory_bytes_ = 0;  // of all automata
};

}  // namespace quire
