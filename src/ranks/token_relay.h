// TokenRelay collects sampled tokens for the ranks and stages that did not sample them, which
// receive them with the next step.
//
//   step.number = relay.add_step(plan);
//   tell(relay.take(), plan);
//   …
//   relay.add_result(step.number, result);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/step.h"

namespace quire {

// One thread may use it.
class TokenRelay {
 public:
  // Call it when a step is sent. Returns the step's number.
  uint64_t add_step(const StepPlan& plan);
  // Keeps the results of a step for the next take(), except those of a request that was dropped or
  // sent again since that step: its tokens have been replaced.
  void add_result(uint64_t step, const StepResult& result);
  // Returns ids, errors and tokens of all results that were added since the last call. Valid until
  // the next call.
  std::span<const RequestStepResult> take();
  // Does the same, but writes to `out`, whose memory is reused.
  void take(StepResult& out);

 private:
  uint64_t num_steps_ = 0;
  // The step in which each request that the others know was sent to them.
  std::unordered_map<RequestId, uint64_t> sent_in_;
  // The first `count` entries are in use; the others are kept for their memory.
  struct Results {
    std::vector<RequestStepResult> requests;
    size_t count = 0;
  };
  Results kept_, taken_;
};

}  // namespace quire
