// Drafts from the request's own text by its suffix automaton: what followed the longest end of the
// text when it stood there before.
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

  std::span<const TokenId> propose(const Request& request, int32_t max_drafts) override;
  void forget(RequestId id) override;

  int64_t memory_bytes() const { return memory_bytes_; }

 private:
  const Options options_;
  std::unordered_map<RequestId, SuffixAutomaton> automata_;
  int64_t memory_bytes_ = 0;  // of all automata
};

}  // namespace quire
