// ChoiceMasks keeps the choices whose tokens follow a mask source: it knows which of them wait for
// a mask, and makes the masks of a step.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/step.h"
#include "engine/choices/group.h"
#include "sched/scheduler.h"

namespace quire {

// It is used on the engine thread only.
class ChoiceMasks {
 public:
  // Borrows the scheduler, which holds the choices that wait.
  ChoiceMasks(Scheduler& scheduler, int32_t vocab_size)
      : scheduler_(scheduler), vocab_size_(vocab_size) {}

  // Adds a choice that has a source and that the scheduler knows. It must stay where it is until
  // remove().
  void add(Choice& choice);
  void remove(const Choice& choice);

  // Tells the choice's source, if it has one, of the tokens that have come.
  Status accept(Choice& choice, std::span<const TokenId> token_ids);

  // Returns how many of `drafts` the masks of a request allow, one behind the other.
  size_t count_allowed(RequestId id, std::span<const TokenId> drafts);

  // Returns tokens that must follow those of a request (TokenMaskSource::forced()).
  std::span<const TokenId> forced(RequestId id) const;

  // Holds the choices whose masks are late, and lets those go on whose masks are ready. Must be
  // called before every step.
  void hold_late();

  struct Failure {
    Choice* choice = nullptr;
    Status status;
  };
  // Adds to `plan` the masks of what it samples. Returns the choices whose sources failed and which
  // must end; they are valid until the next call.
  std::span<Failure> complete(StepPlan& plan);

 private:
  // Whose masks `scheduled` needs; null: it samples nothing, or every token may come.
  Choice* sampled_choice(const ScheduledRequest& scheduled) const;
  Status fill(Choice& choice, ScheduledRequest& scheduled, StepPlan& plan);

  Scheduler& scheduler_;
  const int32_t vocab_size_;
  std::unordered_map<RequestId, Choice*> choices_;
  struct Pending {
    Choice* choice = nullptr;
    bool is_held = false;  // by the scheduler
  };
  std::vector<Pending> pending_;  // whose next masks were not ready yet, in the order they began
  std::vector<Failure> failures_;
};

}  // namespace quire
