#include "sched/media/media_gate.h"

#include <algorithm>

namespace quire {

Status MediaGate::check(const Request& request) const {
  int64_t sum = 0;
  const MediaItem* before = nullptr;  // rows of one picture follow each other
  for (const MediaSpan& span : request.media) {
    const int64_t size = span.item->num_embeddings;
    if (span.item.get() != before) sum += size;
    before = span.item.get();
    if (size > cache_.capacity()) {
      return too_large("an image takes {} tokens: the encoder's cache has room for {}", size,
                       cache_.capacity());
    }
    if (limits_.is_bidirectional && span.num_tokens() > limits_.max_num_batched_tokens) {
      return too_large("an image takes {} tokens: expected at most {} (--max-num-batched-tokens)",
                       span.num_tokens(), limits_.max_num_batched_tokens);
    }
  }
  if (!limits_.is_chunked && sum > cache_.capacity()) {
    return too_large(
        "the images take {} tokens: the encoder's cache has room for {}, and without chunked "
        "prefill they are needed at once",
        sum, cache_.capacity());
  }
  return {};
}

int32_t MediaGate::clip(const Request& request, int32_t position, int32_t num_tokens,
                        int32_t budget, MediaProgress& progress) {
  const std::vector<MediaSpan>& media = request.media;
  for (size_t i = static_cast<size_t>(progress.num_done);
       i < media.size() && media[i].begin < position + num_tokens; ++i) {
    const MediaSpan& span = media[i];
    if (span.end <= position) continue;
    const int32_t before = std::max(0, span.begin - position);
    if (limits_.is_bidirectional && position + num_tokens < span.end) {
      if (span.end - position > budget) return before;
      num_tokens = span.end - position;
    }
    if (static_cast<int32_t>(i) < progress.num_held) continue;
    if (!cache_.acquire(span.item)) return before;
    progress.num_held = static_cast<int32_t>(i) + 1;
  }
  return num_tokens;
}

void MediaGate::begin(const Request& request, int32_t num_computed_tokens,
                      MediaProgress& progress) {
  const auto first =
      std::find_if(request.media.begin(), request.media.end(),
                   [&](const MediaSpan& span) { return span.end > num_computed_tokens; });
  progress.num_done = progress.num_held = static_cast<int32_t>(first - request.media.begin());
}

void MediaGate::release(const Request& request, int32_t num_computed_tokens,
                        MediaProgress& progress) {
  for (; progress.num_done < progress.num_held; ++progress.num_done) {
    const MediaSpan& span = request.media[static_cast<size_t>(progress.num_done)];
    if (span.end > num_computed_tokens) return;
    cache_.release(span.item->key, true);
  }
}

void MediaGate::drop(const Request& request, bool keep, MediaProgress& progress) {
  for (; progress.num_done < progress.num_held; ++progress.num_done) {
    cache_.release(request.media[static_cast<size_t>(progress.num_done)].item->key, keep);
  }
  progress = {};
}

}  // namespace quire
