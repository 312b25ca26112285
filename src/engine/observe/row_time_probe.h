// Measures what steps take by the number of their rows, for counts of drafts to be weighed by.
#pragma once

#include "base/clock.h"
#include "core/executor.h"
#include "draft/row_times.h"

namespace quire {

// Runs steps that verify made-up drafts, of one to `max_rows` rows, about a second in all or five steps, and drops
// them. The executor is initialised and idle, and no block of its KV holds anything. Nothing is known
// when the clock does not move, when the pool is too small or when a step fails.
RowTimes measure_row_times(Executor& executor, const KvPlan& kv_plan, int32_t max_rows,
                           const Clock& clock);

}  // namespace quire
