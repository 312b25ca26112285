// What was sampled, for those ranks and stages that did not sample it: they hear of it with the next
// step.
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

// One thread.
class TokenRelay {
 public:
  // A step is sent off: returns its number.
  uint64_t add_step(const StepPlan& plan);
  // Takes what has become of the step. A request that was sent anew meanwhile has other tokens by
  // now, and so nothing is kept of it.
  void add_result(uint64_t step, const StepResult& result);
  // Ids, errors and tokens of all results that came since the last call; valid until the next one.
  std::span<const RequestStepResult> take();
  // The same, over what `out` holds.
  void take(StepResult& out);

 private:
  uint64_t num_steps_ = 0;
  // A request that the others know was sent to them in this step.
  std::unordered_map<RequestId, uint64_t> sent_in_;
  // Those of the last steps come first; the others are there for their memory.
  struct Results {
    std::vector<RequestStepResult> requests;
    size_t count = 0;
  };
  Results kept_, taken_;
};

}  // namespace quire
