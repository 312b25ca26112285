// --speculative-config: which drafter an engine gets, in the keys of vLLM's flag of the same name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "draft/draft_planner.h"
#include "draft/drafter.h"
#include "draft/ngram_drafter.h"
#include "draft/suffix_drafter.h"

namespace quire {

enum class SpeculativeMethod : uint8_t {
  kNgram,
  kSuffix,
  kDraftModel,  // another model with the same vocabulary
  kSelf,        // the first layers of the model itself, with its head, or a copy of 4 bits
  // Of the served model's hidden states:
  kMedusa,
  kEagle,  // 1 and 2, as a chain
  kEagle3,
  kMtp,  // layers inside the model's own files
};

struct SpeculativeConfig {
  SpeculativeMethod method = SpeculativeMethod::kSuffix;
  // Most drafts of a request in one step; 0: as many as the drafter's files advise.
  int32_t num_speculative_tokens = 0;
  std::vector<DraftPlannerOptions::Limit> limits;  // fewer while many requests run
  bool weigh_drafts = true;                        // as many as pay, else all that there are
  NgramDrafter::Options ngram;
  SuffixDrafter::Options suffix;
  std::string model;              // its path, of the others that have files of their own
  int64_t num_hidden_layers = 0;  // of kSelf; 0: a copy of 4 bits

  bool runs_a_model() const {
    return method != SpeculativeMethod::kNgram && method != SpeculativeMethod::kSuffix;
  }
  bool reads_hidden_states() const {
    return runs_a_model() && method != SpeculativeMethod::kDraftModel &&
           method != SpeculativeMethod::kSelf;
  }
};

// Reads `text`, a JSON object. kInvalidArgument names the key and what was expected.
Result<SpeculativeConfig> parse_speculative_config(std::string_view text);

// This value of the flag switches drafts off.
inline constexpr std::string_view kNoDrafts = "none";

// Whether the flag's value asks for a drafter: neither nothing, which leaves it to the model, nor "none".
inline bool asks_for_drafts(std::string_view text) { return !text.empty() && text != kNoDrafts; }

// Returns what an absent flag means where drafts cost nothing: the suffix drafter. Drafts cost
// something where layers keep states, which a refused draft would have changed, and where steps
// overlap, since a request with drafts waits for its step.
SpeculativeConfig default_speculative_config();

// Of the methods that run no model.
std::shared_ptr<Drafter> make_drafter(const SpeculativeConfig& config);

}  // namespace quire
