// Gives an engine the cost model of its steps, and the files that follow them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "engine/engine_options.h"
#include "exec/model_plan.h"
#include "facade/engine_args.h"
#include "facade/idle_probe.h"
#include "roofline/hardware/hardware.h"
#include "roofline/shape/model_shape.h"

namespace quire {

// Returns the model as the cost model sees it, with the formats that its weights and cache have
// here.
ModelShape cost_shape(const std::string& name, const ModelPlan& plan);

// What steps are measured against.
struct StepHardware {
  std::optional<Hardware> hardware;  // nullopt: nothing, or not yet
  bool probe_when_idle = false;      // this machine is to be measured when the engine runs
};

// What add_step_costs() would refuse, before a model is loaded: unknown hardware, files that cannot
// be written.
Result<StepHardware> step_hardware(const EngineArgs& args);

// Sets cost_model and step_observers of `options` as `args` asks. A model that the cost model
// cannot describe goes without, with a warning in the log. Where the machine is measured later, a
// generic CPU serves to bound steps in time until then.
Status add_step_costs(const EngineArgs& args, const StepHardware& hardware, const std::string& name,
                      const ModelPlan& plan, EngineOptions& options);

// Makes what measures this machine behind `engine`, which runs the model of add_step_costs().
// Returns null when `hardware` does not ask for it.
std::unique_ptr<IdleProbe> make_idle_probe(const EngineArgs& args, const StepHardware& hardware,
                                           const std::string& name, const ModelPlan& plan,
                                           std::shared_ptr<AsyncEngine> engine);

}  // namespace quire
