// Checks which combinations of ranks, stages and engines can run a model.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "exec/model_plan.h"
#include "facade/engine_args.h"

namespace quire {

// Checks everything that can be checked without the model.
Status check_parallel(const EngineArgs& args);

// Sets the `options` for whole experts per rank. kInvalidArgument: flags that contradict each
// other.
Status set_expert_options(const EngineArgs& args, ModelRunnerOptions& options);

// Returns the threads of one of args.data_parallel_size engines, from args.num_threads; 0: as many
// as there are.
int32_t threads_per_engine(const EngineArgs& args);

int32_t ranks_per_stage(const EngineArgs& args);

// Returns args that run the same model on one rank, in one stage of one engine.
EngineArgs run_by_one(EngineArgs args);

}  // namespace quire
