#include "engine/pauses.h"

#include <utility>

namespace quire {

void PauseReply::answer(const Status& status) {
  if (const auto on_paused = std::exchange(on_paused_, nullptr)) on_paused(status);
}

void Pauses::begin(PauseRequest request) {
  const PauseMode mode = request.mode;
  waiting_.push_back(std::move(request));
  if (mode == PauseMode::kWait) return;
  if (mode == PauseMode::kAbort) engine_.end_all(FinishReason::kAbort, {});
  enter();
}

void Pauses::enter() {
  engine_.settle();
  paused_ = true;
  for (const PauseRequest& request : std::exchange(waiting_, {})) {
    const Status status = request.clear_cache ? engine_.reset_prefix_cache() : Status();
    if (status.ok() && request.sleep_level > 0) {
      engine_.executor().discard_kv();
      sleep_level_ = request.sleep_level;
    }
    request.reply->answer(status);
  }
}

}  // namespace quire
