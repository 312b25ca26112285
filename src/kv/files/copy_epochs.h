// CopyEpochs: file jobs that wait until plans have made their copies. Another thread may touch a
// host block only when no plan still copies from or to it. Each plan that takes copies ends an
// epoch.
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

  // Borrows `files`, to which it gives the jobs.
  explicit CopyEpochs(KvFiles& files) : files_(files) {}

  // Gives a job to `files` once all planned copies have been made. `has_untaken_copies`: some of
  // these are not yet in a plan.
  void hand_on(Waiting waiting, bool has_untaken_copies);
  // These two say that the planned copies are in the plan of this step, and that the step is done.
  void on_copies_taken(uint64_t step_id) { steps_.emplace_back(step_id, ++epoch_); }
  void on_step_done(uint64_t step_id);
  // Drops the stores that still wait, and returns their job ids.
  std::vector<uint64_t> forget_stores();
  bool any_waiting() const { return !waiting_.empty(); }

 private:
  void dispatch(Waiting& waiting);

  KvFiles& files_;
  std::deque<Waiting> waiting_;  // in order of epoch
  // The copies of epochs up to done_epoch_ have been made.
  uint64_t epoch_ = 0, done_epoch_ = 0;
  // Pairs (step, epoch that its plan ended) of steps that are not yet done.
  std::deque<std::pair<uint64_t, uint64_t>> steps_;
};

}  // namespace quire
