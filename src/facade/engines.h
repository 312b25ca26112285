// Makes one engine for each executor of a model, all of them behind one interface.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/executor.h"
#include "engine/async_engine.h"
#include "engine/engine_options.h"
#include "facade/engine_args.h"
#include "facade/model_bundle.h"
#include "facade/speculation/model_drafter.h"
#include "facade/speculation/speculative_config.h"
#include "facade/step_costs.h"

namespace quire {

// Makes one drafter for each engine, for its use alone. Drafters that are models are loaded here,
// so they take their memory before the served model, whose options are `of_runner`; each runs on
// one rank, however many the served model has.
Result<std::vector<ModelDrafter>> make_drafters(const EngineArgs& args,
                                                const SpeculativeConfig& config,
                                                const ModelRunnerOptions& of_runner);

// Starts one engine per executor, each with `options`. `model` has its bundle and its plan. There
// is one drafter for each executor, or none.
Result<std::shared_ptr<AsyncEngine>> start_engines(const EngineArgs& args,
                                                   const StepHardware& hardware,
                                                   const RunningModel& model,
                                                   const EngineOptions& options,
                                                   std::vector<std::unique_ptr<Executor>> executors,
                                                   const std::vector<ModelDrafter>& drafters);

}  // namespace quire
