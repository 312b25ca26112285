// GroupMaker makes a group of choices from a client request, and a request of the scheduler from a
// choice.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "core/executor.h"
#include "core/request.h"
#include "engine/choices/group.h"
#include "engine/requests/submission.h"
#include "tokenizer/tokenizer.h"

namespace quire {

// Used by the engine thread only.
class GroupMaker {
 public:
  struct Settings {
    int32_t max_model_len = 0;
    int32_t kv_hit_tokens = 0;  // tokens of which cached prefixes from files are multiples
    PoolingInfo pooling;        // of the model
    // The model's answers do not continue the text of the prompt (MediaInfo::text_source).
    bool has_text_source = false;
    std::optional<int64_t> default_timeout_us;  // for requests without a timeout
  };

  // `tokenizer` may be null: then choices have no text.
  GroupMaker(Settings settings, std::shared_ptr<const Tokenizer> tokenizer)
      : settings_(std::move(settings)), tokenizer_(std::move(tokenizer)) {}

  // Makes a group with its choices' ids. Takes what the group needs out of the submission, and
  // clamps its request to the limits of the model.
  std::unique_ptr<Group> make_group(Submission& submission, int64_t now_us);
  // Makes the scheduler's request. `request` must be the one that make_group() was given.
  Request make_request(const Choice& choice, const GenerationRequest& request,
                       int64_t now_us) const;

 private:
  void make_choice(const GenerationRequest& request, int32_t index, int64_t now_us, Group& group);

  const Settings settings_;
  const std::shared_ptr<const Tokenizer> tokenizer_;  // shared with the frontend
  uint64_t num_requests_ = 0;                         // the number of ids given out
};

}  // namespace quire
