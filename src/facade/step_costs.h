// Gives an engine the cost model of its steps, and the files that record them.
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

// Returns the model's shape for the cost model, with the formats that its weights and cache have
// here.
ModelShape cost_shape(const std::string& name, const ModelPlan& plan);

// The hardware with which steps are compared.
struct StepHardware {
  std::optional<Hardware> hardware;  // nullopt: none, or not yet known
  bool probe_when_idle = false;      // this machine will be measured when the engine runs
};

// Returns the hardware, before a model is loaded. Errors are those of add_step_costs(): unknown
// hardware, files that cannot be written.
Result<StepHardware> step_hardware(const EngineArgs& args);

// Sets cost_model and step_observers of `options` as `args` asks. A model that the cost model
// cannot describe gets none, with a warning in the log. If the machine is measured later, a generic
// CPU's description bounds steps by time until then.
Status add_step_costs(const EngineArgs& args, const StepHardware& hardware, const std::string& name,
                      const ModelPlan& plan, EngineOptions& options);

// Makes the probe that measures this machine while `engine` runs the model of add_step_costs().
// Returns null if `hardware` does not ask for it.
std::unique_ptr<IdleProbe> make_idle_probe(const EngineArgs& args, const StepHardware& hardware,
                                           const std::string& name, const ModelPlan& plan,
                                           std::shared_ptr<AsyncEngine> engine);

}  // namespace quire
