// --speculative-config: which drafter an engine gets. The keys are those of vLLM's flag of the same
// name.
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
  // Drafters that read the served model's hidden states:
  kMedusa,
  kEagle,  // 1 and 2, as a chain
  kEagle3,
  kMtp,  // layers in the model's own files
};

struct SpeculativeConfig {
  SpeculativeMethod method = SpeculativeMethod::kSuffix;
  // The most drafts of a request in one step; 0: as many as the drafter's files advise.
  int32_t num_speculative_tokens = 0;
  std::vector<DraftPlannerOptions::Limit> limits;  // fewer while many requests run
  bool weigh_drafts = true;                        // as many drafts as pay; false: all
  NgramDrafter::Options ngram;
  SuffixDrafter::Options suffix;
  std::string model;              // path of the drafter, for methods with files of their own
  int64_t num_hidden_layers = 0;  // for kSelf; 0: a copy of 4 bits

  bool runs_a_model() const {
    return method != SpeculativeMethod::kNgram && method != SpeculativeMethod::kSuffix;
  }
  bool reads_hidden_states() const {
    return runs_a_model() && method != SpeculativeMethod::kDraftModel &&
           method != SpeculativeMethod::kSelf;
  }
};

// Parses `text`, a JSON object. kInvalidArgument names the key and says what was expected.
Result<SpeculativeConfig> parse_speculative_config(std::string_view text);

// The flag's value that turns drafts off.
inline constexpr std::string_view kNoDrafts = "none";

// Whether the flag's value asks for a drafter: it is neither empty, which leaves it to the model,
// nor "none".
inline bool asks_for_drafts(std::string_view text) { return !text.empty() && text != kNoDrafts; }

// Returns the meaning of an absent flag if drafts cost nothing: the suffix drafter. Drafts do cost
// something if layers keep states, which a refused draft would have changed, or if steps overlap,
// since a request with drafts waits for its step.
SpeculativeConfig default_speculative_config();

// Makes the drafter of a method that runs no model.
std::shared_ptr<Drafter> make_drafter(const SpeculativeConfig& config);

}  // namespace quire
