#include "ranks/gpu/gpu_members.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace quire {

Result<std::unique_ptr<GpuMembers>> GpuMembers::create(
    std::span<const std::unique_ptr<Device>> devices, int num_stages,
    const GpuRanksOptions& options) {
  const auto num_members = static_cast<int>(devices.size());
  if (num_stages < 1 || num_members < 1 || num_members % num_stages != 0) {
    return invalid_argument(
        "--pipeline-parallel-size: expected as many GPUs for each stage, got {} for {} stages",
        num_members, num_stages);
  }
  std::unique_ptr<GpuMembers> members(new GpuMembers(num_members, num_stages));
  if (num_stages > 1) {
    QUIRE_ASSIGN_OR_RETURN(members->links_,
                           GpuStageLink::create(devices, {.num_stages = num_stages,
                                                          .ops = options.ops,
                                                          .deadline_ms = options.deadline_ms}));
  }
  const auto num_ranks = static_cast<size_t>(members->num_ranks());
  for (size_t first = 0; num_ranks > 1 && first < devices.size(); first += num_ranks) {
    QUIRE_ASSIGN_OR_RETURN(auto stage,
                           GpuRanks::create(devices.subspan(first, num_ranks), options));
    std::move(stage.begin(), stage.end(), std::back_inserter(members->ranks_));
  }
  return members;
}

GpuMembers::GpuMembers(int num_members, int num_stages)
    : num_stages_(num_stages), statuses_(static_cast<size_t>(num_members)), threads_(num_members) {}

GpuRanks* GpuMembers::ranks(int member) const {
  return ranks_.empty() ? nullptr : ranks_[static_cast<size_t>(member)].get();
}

GpuStageLink* GpuMembers::link(int member) const {
  return links_.empty() ? nullptr : links_[static_cast<size_t>(member)].get();
}

Status GpuMembers::run(const std::function<Status(int member)>& work) {
  const Status thrown = threads_.run([&](int member) -> Status {
    const auto at = static_cast<size_t>(member);
    statuses_[at] = work(member);
    if (statuses_[at].code() != StatusCode::kUnavailable) return {};
    int nobody = -1;
    first_lost_.compare_exchange_strong(nobody, member);
    leave(member);
    return {};
  });
  if (!thrown.ok()) {  // that member has left no status
    leave(0);
    return thrown;
  }
  const auto is_ok = [](const Status& status) { return status.ok(); };
  const auto num_ok = std::count_if(statuses_.begin(), statuses_.end(), is_ok);
  if (num_ok == std::ssize(statuses_)) return {};
  // A member's own error explains more than kUnavailable, with which others report a missing
  // member. Of several, the first is returned.
  const auto tells = [](const Status& status) {
    return !status.ok() && status.code() != StatusCode::kUnavailable;
  };
  auto told = std::find_if(statuses_.begin(), statuses_.end(), tells);
  if (told == statuses_.end()) told = statuses_.begin() + first_lost_.load();
  if (told->ok()) told = std::find_if_not(statuses_.begin(), statuses_.end(), is_ok);
  if (num_ok > 0) leave(static_cast<int>(told - statuses_.begin()));
  return *told;
}

// Leaves the ranks of all stages, since they wait for each other.
void GpuMembers::leave(int member) {
  if (GpuStageLink* const own = link(member); own != nullptr) own->leave();
  if (GpuRanks* const own = ranks(member); own != nullptr) own->leave();
  for (const auto& other : ranks_) other->leave();
}

Status GpuMembers::health() const {
  if (!links_.empty()) QUIRE_RETURN_IF_ERROR(links_.front()->status());
  return ranks_.empty() ? Status() : ranks_.front()->status();
}

}  // namespace quire
