// SuffixDrafter drafts from a suffix automaton of the request's own text and of its client's
// prediction: the tokens that followed an earlier occurrence of the longest end of the text. If an
// output of a request that has ended contains a longer end of the text, the drafts are the tokens
// that followed there.
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
    // The most drafts per matching token, as vLLM's suffix_decoding_max_spec_factor.
    double max_spec_factor = 1.0;
    // The most memory of the automata, a quarter of which is for outputs of requests that have
    // ended. Requests beyond it get no drafts.
    int64_t max_memory_bytes = int64_t{64} << 20;
  };
  static constexpr DraftSource kSharedSource = 17;  // the first source of such outputs

  explicit SuffixDrafter(const Options& options)
      : options_(options), shared_(options.max_memory_bytes / 4) {}

  void propose(std::span<DraftQuery> queries) override;
  void forget(RequestId id) override;

  int64_t memory_bytes() const { return memory_bytes_ + shared_.memory_bytes(); }

 private:
  struct Text {
    SuffixAutomaton automaton;
    int32_t output_begin = 0;  // where the request's output begins in it
    std::string salt;
    SharedSuffixes::Reader reader;
  };
  void propose(DraftQuery& query);
  Text* text_of(const Request& request);

  const Options options_;
  std::unordered_map<RequestId, Text> texts_;
  int64_t memory_bytes_ = 0;  // of the requests' automata
  SharedSuffixes shared_;
};

}  // namespace quire
