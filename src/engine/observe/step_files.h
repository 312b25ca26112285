// Files that are written while the engine runs: the step log and the Chrome trace.
#pragma once

#include <string>

#include "base/result.h"
#include "engine/observe/step_cost.h"

namespace quire {

// Checks, before a model is loaded, whether the functions below will be able to write `path`.
// Creates an empty file if there is none.
Status check_step_file(const std::string& path);

// Writes roofline/calibrate/step_log.h's format to `path`, which is replaced. If the process is
// killed, at worst the last line is incomplete.
Result<StepObserver> open_step_log(const std::string& path, const StepLogHeader& header);

// Writes the trace-event format that chrome://tracing and Perfetto read: each step with its
// scheduling, execution and update, and its bound beneath it. The closing bracket is left out, as
// the format allows.
Result<StepObserver> open_chrome_trace(const std::string& path);

}  // namespace quire
