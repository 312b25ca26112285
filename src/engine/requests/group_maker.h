// How a client request becomes a group of choices, and a choice a request of the scheduler.
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

// It is used on the engine thread only.
class GroupMaker {
 public:
  struct Settings {
    int32_t max_model_len = 0;
    int32_t kv_hit_tokens = 0;                  // KvManager::hit_tokens()
    PoolingInfo pooling;                        // of the model
    bool has_text_source = false;               // likewise: its answers are texts of their own
    std::optional<int64_t> default_timeout_us;  // of requests that bring none
  };

  // `tokenizer` may be null: choices have no text then.
  GroupMaker(Settings settings, std::shared_ptr<const Tokenizer> tokenizer)
      : settings_(std::move(settings)), tokenizer_(std::move(tokenizer)) {}

  // Takes what the group needs out of the submission, and clamps its request to what the model can
  // do. Its choices get ids.
  std::unique_ptr<Group> make_group(Submission& submission, int64_t now_us);
  // `request` must be the same that make_group() was given.
  Request make_request(const Choice& choice, const GenerationRequest& request,
                       int64_t now_us) const;

 private:
  void make_choice(const GenerationRequest& request, int32_t index, int64_t now_us, Group& group);

  const Settings settings_;
  const std::shared_ptr<const Tokenizer> tokenizer_;  // shared with the frontend
  uint64_t num_requests_ = 0;                         // ids given out
};

}  // namespace quire
