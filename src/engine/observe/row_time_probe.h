// Measures how step time depends on the number of rows, in order to weigh how many drafts pay.
#pragma once

#include "base/clock.h"
#include "core/executor.h"
#include "draft/row_times.h"

namespace quire {

// Runs steps of one to `max_rows` rows that verify made-up drafts, and drops them. It takes about a
// second in all, or five steps. Precondition: the executor is initialised and idle, and no block of
// its KV holds anything. The result has no times if the clock does not move, the pool is too small
// or a step fails.
RowTimes measure_row_times(Executor& executor, const KvPlan& kv_plan, int32_t max_rows,
                           const Clock& clock);

}  // namespace quire
