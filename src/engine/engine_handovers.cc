// Prefill and decode in engines of their own: KV goes from one to the other through files.
#include <algorithm>
#include <utility>

#include "engine/engine.h"

namespace quire {

Status Engine::check_handover(GenerationRequest& request) {
  const bool gives = options_.kv_handover.gives && kv_files_ != nullptr;
  if (request.hands_over_kv && !gives)
    return invalid_argument("kv_transfer_params: this server hands no KV over");
  if (request.handover == nullptr) return {};
  if (!options_.kv_handover.takes || kv_files_ == nullptr)
    return invalid_argument("kv_transfer_params: this server takes no KV over");
  const KvHandover& handover = *request.handover;
  const auto num_blocks = std::ssize(request.prompt_token_ids) / kv_.block_size();
  Status status;
  if (handover.pool != kv_files_->pool()) {
    status = not_found("it is of another directory, model or program");
  } else if (handover.num_tokens < 0 || std::ssize(handover.files) > num_blocks) {
    status = invalid_argument("{} files of {} tokens for a prompt of {}", handover.files.size(),
                              handover.num_tokens, request.prompt_token_ids.size());
  } else {
    status = kv_files_->look_for(handover.files);
  }
  if (status.ok()) return {};
  ++num_takeovers_failed_;
  request.handover = nullptr;
  if (options_.kv_handover.recomputes) return {};
  return unavailable("kv_transfer_params: the KV is not there: {}", status.message());
}

// What was to come has come with the first tokens that are scheduled, or not at all.
void Engine::check_taken_over(const Choice& choice) {
  Group& group = *choice.group;
  if (group.num_required_tokens == 0 || choice.index > 0) return;
  const Request* const request = scheduler_.find(choice.request_id);
  if (request == nullptr || !request->reads_prefix_cache()) return;
  if (request->num_cached_tokens >= group.num_required_tokens) {
    ++num_takeovers_;
    return;
  }
  ++num_takeovers_failed_;
  if (options_.kv_handover.recomputes) return;
  end_group(group, FinishReason::kError,
            unavailable("kv_transfer_params: expected {} tokens of the prompt in KV files, got {}",
                        group.num_required_tokens, request->num_cached_tokens));
}

void Engine::hand_over(Choice& choice, OutputDelta delta) {
  const Request* const request = scheduler_.find(choice.request_id);
  if (request == nullptr || !request->media.empty()) return push(choice, std::move(delta));
  choice.group->is_handing_over = true;
  handovers_.begin({.choice = &choice, .delta = std::move(delta)}, *request, clock_->now_us());
}

void Engine::end_handovers(int64_t now_us) {
  if (handovers_.empty()) return;
  for (KvHandovers::Answer& answer : handovers_.poll(now_us)) {
    answer.choice->group->is_handing_over = false;
    push(*answer.choice, std::move(answer.delta));
  }
}

}  // namespace quire
