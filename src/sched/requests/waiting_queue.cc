#include "sched/requests/waiting_queue.h"

#include <algorithm>

#include "base/check.h"

namespace quire {
namespace {

int64_t priority_rank(const SchedulerConfig& config, const Request& request) {
  if (config.priority_ageing_s <= 0.0) return request.priority;
  const auto level_us = static_cast<int64_t>(config.priority_ageing_s * 1e6);
  return request.priority * level_us + request.arrival_us;
}

int64_t sjf_rank(const SchedulerConfig& config, const Request& request) {
  const int64_t longest = std::min<int64_t>(
      int64_t{request.num_prompt_tokens} + request.params->max_tokens, config.max_model_len);
  const int64_t remaining = std::max<int64_t>(longest - request.num_computed_tokens, 1);
  if (config.sjf_ageing_tokens_per_s <= 0.0) return remaining;
  const double us_per_token = 1e6 / config.sjf_ageing_tokens_per_s;
  return static_cast<int64_t>(static_cast<double>(remaining) * us_per_token) + request.arrival_us;
}

}  // namespace

WaitingQueue::Item WaitingQueue::make_item(Entry& entry) const {
  const Request& request = entry.request;
  Item item{.arrival_us = request.arrival_us, .id = request.id, .entry = &entry};
  switch (config_.policy) {
    case SchedulingPolicy::kFcfs:
      item.resumes = request.num_preemptions > 0;
      break;
    case SchedulingPolicy::kPriority:
      item.rank = priority_rank(config_, request);
      break;
    case SchedulingPolicy::kSjf:
      item.rank = sjf_rank(config_, request);
      break;
  }
  return item;
}

void WaitingQueue::insert(Entry& entry) {
  const Item item = make_item(entry);
  items_.insert(item);
  if (entry.is_short) short_items_.insert(item);
}

void WaitingQueue::erase(Entry& entry) {
  const auto it = items_.find(make_item(entry));
  QUIRE_CHECK(it != items_.end(), "S-3: request {} is not in the waiting queue",
              entry.request.id.value);
  erase(it);
}

WaitingQueue::iterator WaitingQueue::erase(iterator it) {
  if (it->entry->is_short) short_items_.erase(*it);
  return items_.erase(it);
}

WaitingQueue::iterator WaitingQueue::first_short() const {
  return short_items_.empty() ? items_.end() : items_.find(*short_items_.begin());
}

}  // namespace quire
