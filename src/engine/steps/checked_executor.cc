#include "engine/steps/checked_executor.h"

#include <exception>

#include "engine/steps/step_check.h"

namespace quire {
namespace {

// Returns what `call` returns, or the exception that it threw as an error. An exception does not
// tell whether the plan's host copies were made, so with any of them the executor counts as lost.
template <typename F>
std::invoke_result_t<F> caught(const StepPlan& plan, F call) {
  try {
    return call();
  } catch (const std::exception& e) {
    if (!plan.host_copies.empty()) return unavailable("executor: {}", e.what());
    return internal_error("executor: {}", e.what());
  }
}

Result<StepResult> checked(const StepPlan& plan, int32_t vocab_size, Result<StepResult> result) {
  if (result.ok()) QUIRE_RETURN_IF_ERROR(check_step_result(plan, *result, vocab_size));
  return result;
}

}  // namespace

Result<StepResult> CheckedExecutor::execute(const StepPlan& plan) {
  return checked(plan, vocab_size_, caught(plan, [&] { return executor_.execute(plan); }));
}

Status CheckedExecutor::submit(const StepPlan& plan) {
  return caught(plan, [&] { return executor_.submit(plan); });
}

Result<StepResult> CheckedExecutor::collect(const StepPlan& plan) {
  return checked(plan, vocab_size_, caught(plan, [&] { return executor_.collect(); }));
}

}  // namespace quire
