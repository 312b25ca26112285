#include "sched/media/encoder_cache.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace quire {

bool EncoderCache::acquire(const std::shared_ptr<const MediaItem>& item) {
  const int64_t size = item->num_embeddings;
  auto it = items_.find(item->key);
  if (it == items_.end()) {
    const bool is_first = num_left_in_step_ == step_capacity_;
    if ((size > num_left_in_step_ && !is_first) || !make_room(size)) return false;
    it = items_.emplace(item->key, Held{.item = item}).first;
    inputs_.push_back(item);
    num_left_in_step_ -= size;
    ++stats_.num_items;
    stats_.num_embeddings += size;
  } else {
    if (it->second.num_refs == 0) unused_.erase(it->second.unused);
    ++stats_.num_hits;
  }
  ++stats_.num_queries;
  if (it->second.num_refs++ == 0) num_referenced_ += size;
  return true;
}

bool EncoderCache::make_room(int64_t num_embeddings) {
  if (num_referenced_ + num_embeddings > capacity_) return false;
  while (stats_.num_embeddings + num_embeddings > capacity_) {
    forget(items_.find(unused_.front()));
    ++stats_.num_evictions;
  }
  return true;
}

// Forgets an item without references. If it has not been encoded yet, it never will be.
void EncoderCache::forget(Items::iterator it) {
  const auto input = std::find(inputs_.begin(), inputs_.end(), it->second.item);
  if (input == inputs_.end()) {
    freed_.push_back(it->first);
  } else {
    inputs_.erase(input);
  }
  --stats_.num_items;
  stats_.num_embeddings -= it->second.item->num_embeddings;
  unused_.erase(it->second.unused);
  items_.erase(it);
}

void EncoderCache::release(const std::string& key, bool keep) {
  const auto it = items_.find(key);
  QUIRE_CHECK(it != items_.end() && it->second.num_refs > 0, "S-11: an item released twice");
  if (--it->second.num_refs > 0) return;
  num_referenced_ -= it->second.item->num_embeddings;
  it->second.unused = unused_.insert(unused_.end(), key);
  if (!keep) forget(it);
}

void EncoderCache::take(StepPlan& plan) {
  plan.freed_media.swap(freed_);
  plan.media_inputs.swap(inputs_);
  freed_.clear();
  inputs_.clear();
}

Status EncoderCache::check() const {
  int64_t num_embeddings = 0, num_referenced = 0;
  size_t num_unused = 0;
  for (const auto& [key, held] : items_) {
    num_embeddings += held.item->num_embeddings;
    if (held.num_refs > 0) num_referenced += held.item->num_embeddings;
    if (held.num_refs == 0) ++num_unused;
  }
  if (num_embeddings != stats_.num_embeddings || num_referenced != num_referenced_ ||
      num_unused != unused_.size() || num_embeddings > capacity_) {
    return internal_error("S-11: {} embeddings held and {} needed of {}, counted {} and {}",
                          num_embeddings, num_referenced, capacity_, stats_.num_embeddings,
                          num_referenced_);
  }
  return {};
}

}  // namespace quire
