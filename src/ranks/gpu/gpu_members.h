// GpuMembers are the members of an executor on several GPUs: every rank of every stage is one, a
// thread with a GPU. They are tied together by what ranks of a stage share and by the way from
// stage to stage, and all of them end when one is lost.
//
//   QUIRE_ASSIGN_OR_RETURN(auto members, GpuMembers::create(devices, 2, {.ops = &ops}));
//   QUIRE_RETURN_IF_ERROR(members->run([&](int member) { return work_of(member); }));
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "exec/gpu/ranks/gpu_ranks.h"
#include "exec/gpu/ranks/gpu_stage_link.h"
#include "ranks/rank_threads.h"

namespace quire {

class GpuMembers {
 public:
  // `devices` are the ranks of the first stage, then those of the next; the members borrow them.
  // kInvalidArgument: stages do not have as many each. Other errors are those of GpuRanks::create()
  // and GpuStageLink::create().
  static Result<std::unique_ptr<GpuMembers>> create(
      std::span<const std::unique_ptr<Device>> devices, int num_stages,
      const GpuRanksOptions& options);

  int size() const { return threads_.size(); }
  int num_stages() const { return num_stages_; }
  int num_ranks() const { return size() / num_stages_; }  // of each stage
  GpuRanks* ranks(int member) const;                      // null: a rank alone
  GpuStageLink* link(int member) const;                   // null: one stage

  // Calls work(member) on every member's thread, one call at a time. An error that not all of them have
  // breaks the group: whoever has none may have queued work that waits for the others.
  Status run(const std::function<Status(int member)>& work);
  // Breaks the group, as whoever has lost the member's GPU does. Any thread.
  void leave(int member);
  // kUnavailable: it is broken. Any thread.
  Status health() const;

 private:
  GpuMembers(int num_members, int num_stages);

  const int num_stages_;
  std::vector<std::unique_ptr<GpuRanks>> ranks_;      // by member, or empty
  std::vector<std::unique_ptr<GpuStageLink>> links_;  // likewise
  std::vector<Status> statuses_;
  std::atomic<int> first_lost_{-1};  // the member that was the first to say kUnavailable
  RankThreads threads_;
};

}  // namespace quire
