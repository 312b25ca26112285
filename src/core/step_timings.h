// Sums of what steps and parts of steps took.
#pragma once

#include "core/step.h"

namespace quire {

// Adds all but num_members, which is how many there are and not how long something took.
inline void add_times(StepTimings& sum, const StepTimings& part) {
  for (int64_t StepTimings::*const time :
       {&StepTimings::inputs_us, &StepTimings::encoder_us, &StepTimings::forward_us,
        &StepTimings::logits_us, &StepTimings::sample_us, &StepTimings::late_members}) {
    sum.*time += part.*time;
  }
}

}  // namespace quire
