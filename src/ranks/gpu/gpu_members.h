// GpuMembers are the members of an executor on several GPUs: every rank of every stage is a member,
// with a thread and a GPU. Members of a stage are connected by GpuRanks and stages by GpuStageLink;
// all of them end when one is lost.
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
  // `devices` are the ranks of the first stage, then those of the next; they are borrowed.
  // kInvalidArgument: the devices cannot be divided equally among the stages. Other errors are
  // those of GpuRanks::create() and GpuStageLink::create().
  static Result<std::unique_ptr<GpuMembers>> create(
      std::span<const std::unique_ptr<Device>> devices, int num_stages,
      const GpuRanksOptions& options);

  int size() const { return threads_.size(); }
  int num_stages() const { return num_stages_; }
  int num_ranks() const { return size() / num_stages_; }  // of each stage
  GpuRanks* ranks(int member) const;                      // null: the stage has one rank
  GpuStageLink* link(int member) const;                   // null: there is one stage

  // Calls work(member) on every member's thread; calls must not overlap. If some members fail and
  // others do not, the group is broken, since the others may have queued work that waits for the
  // failed ones.
  Status run(const std::function<Status(int member)>& work);
  // Breaks the group, as a member does when its GPU is lost. Any thread may call it.
  void leave(int member);
  // Returns kUnavailable if the group is broken. Any thread may call it.
  Status health() const;

 private:
  GpuMembers(int num_members, int num_stages);

  const int num_stages_;
  std::vector<std::unique_ptr<GpuRanks>> ranks_;      // by member, or empty
  std::vector<std::unique_ptr<GpuStageLink>> links_;  // by member, or empty
  std::vector<Status> statuses_;
  std::atomic<int> first_lost_{-1};  // the first member to return kUnavailable, or -1
  RankThreads threads_;
};

}  // namespace quire
