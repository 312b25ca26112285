#include "exec/media/media_stage.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace quire {

MediaInfo MediaStage::info() const {
  return {.max_item_embeddings = tower_->spec().max_embeddings(),
          .max_cached_embeddings = max_cached_embeddings_,
          .is_bidirectional = tower_->spec().is_bidirectional};
}

int64_t MediaStage::cache_bytes() const {
  return max_cached_embeddings_ * tower_->spec().embedding_size() * int64_t{sizeof(float)};
}

void MediaStage::apply(const StepPlan& plan, std::vector<int64_t>& encode_us) {
  const SteadyClock clock;
  for (const std::string& key : plan.freed_media) encoded_.erase(key);
  for (const auto& item : plan.media_inputs) {
    const int64_t begin_us = clock.now_us();
    Encoded& encoded = encoded_[item->key];
    encoded.rows.resize(
        static_cast<size_t>(item->num_embeddings * tower_->spec().embedding_size()));
    encoded.status = tower_->encode(*item, encoded.rows.data());
    if (!encoded.status.ok()) encoded.rows.clear();
    encode_us.push_back(clock.now_us() - begin_us);
  }
}

Status MediaStage::add_rows(const ScheduledRequest& scheduled, int64_t first_row,
                            std::span<const MediaSpan> media) {
  const VisionSpec& spec = tower_->spec();
  const int32_t begin = scheduled.num_computed_tokens;
  const int32_t end = begin + scheduled.num_scheduled_tokens;
  for (const MediaSpan& span : media) {
    const int32_t from = std::max(begin, span.begin), to = std::min(end, span.end);
    if (from >= to) continue;
    const auto it = encoded_.find(span.item->key);
    if (it == encoded_.end()) return internal_error("step plan: an image was not encoded");
    QUIRE_RETURN_IF_ERROR(it->second.status);
    const int64_t embedding = span.first + from - span.begin;
    rows_.push_back({.first = first_row + from - begin,
                     .count = to - from,
                     .rows = it->second.rows.data() + embedding * spec.embedding_size(),
                     .stride = spec.embedding_size(),
                     .num_added = std::ssize(spec.tap_layers)});
  }
  return {};
}

}  // namespace quire
