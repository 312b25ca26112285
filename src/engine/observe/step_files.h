// Files that follow the engine: the step log and the Chrome trace.
#pragma once

#include <string>

#include "base/result.h"
#include "engine/observe/step_cost.h"

namespace quire {

// Checks, before a model is loaded, whether the functions below will be able to write `path`.
// Leaves an empty file where there was none.
Status check_step_file(const std::string& path);

// Writes roofline/calibrate/step_log.h's format to `path`, which is replaced. What a killed process
// leaves behind ends within a line at worst.
Result<StepObserver> open_step_log(const std::string& path, const StepLogHeader& header);

// Writes the trace-event format that chrome://tracing and Perfetto read: each step with its
// scheduling, execution and update, and the bound beneath it. The closing bracket that the format
// lets one leave out is left out.
Result<StepObserver> open_chrome_trace(const std::string& path);

}  // namespace quire
