#include "facade/batch/request_batch.h"

#include <chrono>
#include <utility>

namespace quire {
namespace {

// How long to wait without output for room in a queue that others may have filled.
constexpr std::chrono::milliseconds kPatience{20};

}  // namespace

Status RequestBatch::add(const GenerationRequest& request) {
  for (;;) {
    auto stream = engine_.submit(request, [news = news_] { news->release(); });
    if (stream.ok()) {
      streams_.push_back(std::move(*stream));
      return {};
    }
    if (stream.status().code() != StatusCode::kResourceExhausted) return stream.status();
    QUIRE_RETURN_IF_ERROR(take_all_there_is());
    (void)news_->try_acquire_for(kPatience);
    while (news_->try_acquire()) {
    }
  }
}

Status RequestBatch::finish() {
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i] == nullptr) continue;
    while (auto delta = streams_[i]->pop()) QUIRE_RETURN_IF_ERROR(take(i, std::move(*delta)));
    streams_[i].reset();
  }
  return {};
}

Status RequestBatch::take(size_t index, OutputDelta delta) {
  if (!delta.status.ok()) return delta.status;
  take_(index, std::move(delta));
  return {};
}

Status RequestBatch::take_all_there_is() {
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i] == nullptr) continue;
    while (auto delta = streams_[i]->try_pop()) QUIRE_RETURN_IF_ERROR(take(i, std::move(*delta)));
    if (streams_[i]->done()) streams_[i].reset();
  }
  return {};
}

}  // namespace quire
