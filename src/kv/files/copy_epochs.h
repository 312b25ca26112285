// What waits until plans have made their copies: another thread may touch a host block only when no
// plan still copies from or to it. Copies taken by a plan end an epoch.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "core/kv_files.h"

namespace quire {

class CopyEpochs {
 public:
  struct Waiting {
    uint64_t epoch = 0;
    std::optional<KvStoreJob> store;
    std::optional<KvLoadJob> load;
  };

  // Borrows `files`, which get the jobs.
  explicit CopyEpochs(KvFiles& files) : files_(files) {}

  // Hands a job on when all copies that are planned have been made. `has_untaken_copies` says that
  // some wait for a plan to be in.
  void hand_on(Waiting waiting, bool has_untaken_copies);
  // Says that the copies that are planned are in the plan of this step, and then that it is done.
  void on_copies_taken(uint64_t step_id) { steps_.emplace_back(step_id, ++epoch_); }
  void on_step_done(uint64_t step_id);
  // Takes back what was to be written and waits still: ids of the jobs.
  std::vector<uint64_t> forget_stores();
  bool any_waiting() const { return !waiting_.empty(); }

 private:
  void dispatch(Waiting& waiting);

  KvFiles& files_;
  std::deque<Waiting> waiting_;                      // in order of epoch
  uint64_t epoch_ = 0, done_epoch_ = 0;              // epochs up to done_epoch_ have been made
  std::deque<std::pair<uint64_t, uint64_t>> steps_;  // (step, epoch that it ended), not yet done
};

}  // namespace quire
