#include "sim/replica/drafting_work.h"

#include <algorithm>

namespace quire::sim {

void DraftingWork::clear() {
  for (StepShape& shape : by_place_) shape.clear();
}

void DraftingWork::add(const ScheduledRequest& scheduled, const StepTimer& timer,
                       int32_t& num_read) {
  if (scheduled.num_drafts == 0) return;
  by_place_.resize(std::max(by_place_.size(), static_cast<size_t>(scheduled.num_drafts)));
  const int32_t num_known =
      scheduled.num_computed_tokens + scheduled.num_scheduled_tokens - scheduled.num_drafts;
  const int32_t first = std::min(num_read, num_known - 1);
  by_place_[0].add(first, num_known - first, true, timer.windows());
  for (int32_t place = 1; place < scheduled.num_drafts; ++place) {
    by_place_[static_cast<size_t>(place)].add(num_known - 1 + place, 1, true, timer.windows());
  }
  num_read = num_known + scheduled.num_drafts - 1;
}

int64_t DraftingWork::ns(const StepTimer& timer) const {
  int64_t sum = 0;
  for (const StepShape& shape : by_place_) {
    if (shape.num_tokens == 0) continue;
    sum += std::max<int64_t>(0, timer.time(shape).total_ns - timer.host_ns(shape));
  }
  return sum;
}

}  // namespace quire::sim
