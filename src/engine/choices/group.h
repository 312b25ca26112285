// The engine's record of one client request and its choices, until they are finished. Used by the
// engine thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "core/step.h"
#include "engine/beam/beam_search.h"
#include "engine/observe/engine_metrics.h"
#include "engine/output/output_channel.h"
#include "engine/output/text_output.h"
#include "engine/output/token_mask_source.h"

namespace quire {

// Identifies one client request. Its submitter chooses the id, which is never used again.
using GroupId = StrongId<struct GroupIdTag, uint64_t>;

struct Group;

struct Choice {
  RequestId request_id;
  int32_t index = 0;
  Group* group = nullptr;
  RequestKind kind = RequestKind::kGenerate;
  std::shared_ptr<const SamplingParams> params;
  std::shared_ptr<const PoolingParams> pooling;  // null: not a pooling request
  std::optional<TextOutput> text;                // empty without a tokenizer
  bool wants_text_ends = false;                  // of the request
  std::unique_ptr<TokenMaskSource> mask_source;  // null: every token is allowed
  ChoiceTimes times;
  bool scheduled = false;    // times.first_scheduled_us is set
  bool prompt_done = false;  // it has its first token
  bool finished = false;
  int32_t num_cached_tokens = 0;
  int32_t num_output_tokens = 0;
  int32_t num_preemptions = 0;  // preemptions after which it ran again
  DraftCounts drafts;
};

struct Group {
  GroupId id;
  std::string external_id;
  std::shared_ptr<OutputChannel> channel;
  int32_t num_prompt_tokens = 0;
  std::vector<Choice> choices;  // never resized, since others point into it
  int32_t num_unfinished = 0;
  // Greedy choices are all equal: the first is computed, and the others are copies of it.
  bool copies_first = false;
  // The search whose beam in place i is the request of choice i until it is over; null: no search.
  std::unique_ptr<BeamSearch> beams;
  bool has_news = false;  // since the last notify()
  // Kept until choice 0's first delta takes them.
  std::vector<TokenLogprobs> prompt_logprobs;
  bool first_delta_sent = false;
  bool hands_over_kv = false;    // of the request
  bool is_handing_over = false;  // its last delta waits until the KV is in files
  // Prompt tokens that must come from the cache, or the request fails; 0: none.
  int32_t num_required_tokens = 0;
  bool any_succeeded = false;  // a choice ended by stop or length
  int32_t max_output_tokens = 0;
};

// Returns whether nothing will be pushed to the group's stream any more.
inline bool is_over(const Group& group) {
  return group.num_unfinished == 0 && !group.is_handing_over;
}

// Appends prompt logprobs that continue those of the group. After a preemption they come from the
// start again; those that the group has already are skipped.
void collect_prompt_logprobs(Group& group, const RequestStepResult& result);

// Appends new tokens to `delta`: ids, logprobs (by index from `logprobs`, which may be empty),
// text. `stopped`: the last token is an EOS or stop token, whose text appears only with
// include_stop_str_in_output. Returns the index of the stop string that ended the text, if any;
// later tokens are then left out.
std::optional<size_t> append_tokens(Choice& choice, std::span<const TokenId> token_ids,
                                    std::span<const TokenLogprobs> logprobs, bool stopped,
                                    OutputDelta& delta);

// Returns the seed of choice `index`: the request's own for 0, else one derived from seed and
// index.
uint64_t choice_seed(uint64_t seed, int32_t index);

}  // namespace quire
