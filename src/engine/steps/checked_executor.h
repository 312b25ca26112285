// CheckedExecutor turns errors, exceptions and wrong results of an executor into errors of the step
// (law L6).
#pragma once

#include <cstdint>

#include "core/executor.h"

namespace quire {

class CheckedExecutor {
 public:
  // Borrows `executor`, whose model has `vocab_size` tokens.
  CheckedExecutor(Executor& executor, int32_t vocab_size)
      : executor_(executor), vocab_size_(vocab_size) {}

  Result<StepResult> execute(const StepPlan& plan);
  Status submit(const StepPlan& plan);
  // Returns the result of the oldest submitted step. `plan` has its id and its scheduled requests.
  Result<StepResult> collect(const StepPlan& plan);

 private:
  Executor& executor_;
  const int32_t vocab_size_;
};

}  // namespace quire
