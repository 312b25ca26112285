#include "facade/engines.h"

#include <utility>

#include "engine/replicas/replicated_engine.h"
#include "facade/model_executor.h"
#include "facade/parallel_args.h"

namespace quire {

Result<std::vector<ModelDrafter>> make_drafters(const EngineArgs& args,
                                                const SpeculativeConfig& config,
                                                const ModelRunnerOptions& of_runner) {
  std::vector<ModelDrafter> drafters;
  const EngineArgs of_drafters = run_by_one(args);
  const LoadExecutor load = [&](ModelRunnerOptions options) -> Result<std::unique_ptr<Executor>> {
    options.num_replicas = 1;
    options.share = {};
    QUIRE_ASSIGN_OR_RETURN(ModelExecutor made, make_model_executor(of_drafters, options));
    return std::move(made.executors.front());
  };
  for (int32_t i = 0; i < args.data_parallel_size; ++i) {
    if (config.runs_a_model()) {
      QUIRE_ASSIGN_OR_RETURN(drafters.emplace_back(), make_model_drafter(config, of_runner, load));
    } else {
      drafters.push_back({.drafter = make_drafter(config),
                          .name = {},
                          .num_speculative_tokens = config.num_speculative_tokens});
    }
  }
  return drafters;
}

Result<std::shared_ptr<AsyncEngine>> start_engines(const EngineArgs& args,
                                                   const StepHardware& hardware,
                                                   const RunningModel& model,
                                                   const EngineOptions& options,
                                                   std::vector<std::unique_ptr<Executor>> executors,
                                                   const std::vector<ModelDrafter>& drafters) {
  const auto clock = std::make_shared<SteadyClock>();
  std::vector<std::unique_ptr<AsyncEngine>> engines;
  for (size_t i = 0; i < executors.size(); ++i) {
    EngineOptions of_engine = options;
    if (!drafters.empty()) of_engine.drafter = drafters[i].drafter;
    EngineArgs of_files = args;  // each engine writes its own: steps.jsonl, steps.jsonl.1, …
    for (std::string* path : {&of_files.step_log, &of_files.chrome_trace}) {
      if (i > 0 && !path->empty()) *path += fmt::format(".{}", i);
    }
    QUIRE_RETURN_IF_ERROR(
        add_step_costs(of_files, hardware, model.bundle.name, model.plan, of_engine));
    // A client that had another engine prefill the prompt wants its KV read, however long computing
    // takes.
    if (of_engine.kv_handover.takes) of_engine.kv.files.compute_us = nullptr;
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<AsyncEngine> engine,
                           make_async_engine(std::move(of_engine), std::move(executors[i]),
                                             model.bundle.tokenizer, clock));
    engines.push_back(std::move(engine));
  }
  if (engines.size() == 1) return std::shared_ptr<AsyncEngine>(std::move(engines.front()));
  return std::shared_ptr<AsyncEngine>(
      make_replicated_engine(std::move(engines), {.routing = Routing::kPrefixAware},
                             model.on_gpu ? ReplicaAdapters::kOwn : ReplicaAdapters::kShared));
}

}  // namespace quire
