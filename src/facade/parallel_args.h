// Which ways of running a model on several ranks, stages and engines go together.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "exec/model_plan.h"
#include "facade/engine_args.h"

namespace quire {

// Refuses what can be refused without the model.
Status check_parallel(const EngineArgs& args);

// Writes into `options` what flags say of experts that ranks have whole. kInvalidArgument: flags that
// contradict each other.
Status set_expert_options(const EngineArgs& args, ModelRunnerOptions& options);

// Of args.num_threads, those of one engine of args.data_parallel_size. 0: as many as there are.
int32_t threads_per_engine(const EngineArgs& args);

int32_t ranks_per_stage(const EngineArgs& args);

// Returns args that run the same model on one rank, in one stage of one engine.
EngineArgs run_by_one(EngineArgs args);

}  // namespace quire
