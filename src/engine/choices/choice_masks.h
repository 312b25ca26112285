// ChoiceMasks has the choices with a mask source. It records which of them wait for a mask, and
// makes the masks of a step.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/step.h"
#include "engine/choices/group.h"
#include "sched/scheduler.h"

namespace quire {

// Used by the engine thread only.
class ChoiceMasks {
 public:
  // Borrows the scheduler, which holds back the choices that wait.
  ChoiceMasks(Scheduler& scheduler, int32_t vocab_size)
      : scheduler_(scheduler), vocab_size_(vocab_size) {}

  // Adds a choice that has a source and that is in the scheduler. Its address must not change until
  // remove().
  void add(Choice& choice);
  void remove(const Choice& choice);

  // Passes the choice's new tokens to its source, if it has one.
  Status accept(Choice& choice, std::span<const TokenId> token_ids);

  // Returns how many of `drafts` the request's masks allow in sequence.
  size_t count_allowed(RequestId id, std::span<const TokenId> drafts);

  // Returns tokens that must follow those of a request (TokenMaskSource::forced()).
  std::span<const TokenId> forced(RequestId id) const;

  // Holds the choices whose masks are not ready, and releases those whose masks are. Must be called
  // before every step.
  void hold_late();

  struct Failure {
    Choice* choice = nullptr;
    Status status;
  };
  // Adds the masks of the rows that the step samples to `plan`. Returns the choices whose sources
  // failed and which must end; valid until the next call.
  std::span<Failure> complete(StepPlan& plan);

 private:
  // Returns the choice whose masks `scheduled` needs; null: the step samples nothing for it, or
  // every token is allowed.
  Choice* sampled_choice(const ScheduledRequest& scheduled) const;
  Status fill(Choice& choice, ScheduledRequest& scheduled, StepPlan& plan);

  Scheduler& scheduler_;
  const int32_t vocab_size_;
  std::unordered_map<RequestId, Choice*> choices_;
  struct Pending {
    Choice* choice = nullptr;
    bool is_held = false;  // by the scheduler
  };
  // Choices whose next masks were not ready, in the order in which they began.
  std::vector<Pending> pending_;
  std::vector<Failure> failures_;
};

}  // namespace quire
