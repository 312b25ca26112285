// Admission decides which waiting requests join the running ones, and with how many tokens. One
// thread may use it.
#pragma once

#include "sched/beams/beams.h"
#include "sched/budget/preemptions.h"
#include "sched/budget/step_budget.h"

namespace quire {

class Admission {
 public:
  Admission(SchedulerState& state, StepBudget& budget, Preemptions& preemptions, Beams& beams)
      : state_(state), budget_(budget), preemptions_(preemptions), beams_(beams) {}

  // Admits as many requests as the step and the cache have room for, in the order of the policy.
  void admit();
  // Returns a lower bound of the number of rounds, from the next one on, in which admit() would
  // look at no request as long as only decodes that take blocks happen.
  int32_t num_idle_rounds() const;

 private:
  enum class Outcome : uint8_t {
    kAdmitted,
    kNoBudget,
    kNoBlocks,
    kNotReady,  // it waits for something other than room: files, the next mask, an encoder
  };
  // The head is the first request of the queue that does not fit. Others may pass it.
  struct Head {
    Entry* entry = nullptr;  // null: there is no head yet
    // Keeps the cached blocks that the head is going to hit, until the round ends.
    BlockHold prefix;
    bool keeps_prefix = false;  // `prefix` is set
    int32_t num_tried_past = 0;
  };

  void admit_short();
  void admit_common();
  Outcome try_unless_hopeless(Entry& entry, Head& head);
  bool order_is_strict(Entry& entry, Outcome outcome, Head& head);
  bool has_common_places(int32_t num_places) const;
  bool not_worth_a_try(const Entry& entry, const BlockCounts& available) const;

  Entry* find_adapter_head() const;
  bool waits_for_adapter(const Entry& entry) const;
  void note_overtaken(const Entry& admitted);

  Outcome try_admit(Entry& entry);
  bool promote_prefix(const Entry& entry);
  PrefixHit find_hit(Entry& entry);
  bool allocate(Entry& entry, const PrefixHit& hit, int32_t num_tokens);
  void start(Entry& entry, const PrefixHit& hit, int32_t num_tokens);

  SchedulerState& state_;
  StepBudget& budget_;
  Preemptions& preemptions_;
  Beams& beams_;
  Entry* adapter_head_ = nullptr;  // find_adapter_head() of the step being planned
  bool batch_forming_ = true;      // static batches: the current batch may still grow
};

}  // namespace quire
