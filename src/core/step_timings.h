// Sums of step times.
#pragma once

#include "core/step.h"

namespace quire {

// Adds all fields except num_members, a size that does not add up; `sum` keeps its own.
inline void add_times(StepTimings& sum, const StepTimings& part) {
  for (int64_t StepTimings::*const time :
       {&StepTimings::inputs_us, &StepTimings::encoder_us, &StepTimings::forward_us,
        &StepTimings::logits_us, &StepTimings::sample_us, &StepTimings::late_members}) {
    sum.*time += part.*time;
  }
}

}  // namespace quire
