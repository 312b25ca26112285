// Outcomes applies a step's result to its requests. One thread may use it.
#pragma once

#include <span>
#include <vector>

#include "draft/draft_planner.h"
#include "sched/beams/beams.h"
#include "sched/requests/scheduler_state.h"
#include "sched/steps/plan_builder.h"

namespace quire {

class Outcomes {
 public:
  // `plans` is the builder of the plans whose results come.
  Outcomes(SchedulerState& state, Beams& beams, DraftPlanner& draft_planner,
           const PlanBuilder& plans)
      : state_(state), beams_(beams), draft_planner_(draft_planner), plans_(plans) {}

  // Applies a result: appends tokens and finishes requests. The returned updates are valid until
  // the next call and as long as `result`.
  std::span<const RequestUpdate> take(const StepResult& result);

 private:
  Entry* match(size_t index, RequestId id, uint64_t step_id);
  void apply(Entry& entry, const RequestStepResult& result);
  void append_tokens(Request& request, std::span<const TokenId> token_ids, RequestUpdate& update);
  void advance(Entry& entry, int32_t end);
  void count_computed(Entry& entry, int32_t begin, int32_t end);
  void fail_unanswered(uint64_t step_id);
  void end_with_error(Entry& entry, const RequestStepResult* result, Status status);

  SchedulerState& state_;
  Beams& beams_;
  DraftPlanner& draft_planner_;
  const PlanBuilder& plans_;
  std::vector<RequestUpdate> updates_;
};

}  // namespace quire
