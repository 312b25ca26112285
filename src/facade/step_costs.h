// Gives an engine the cost model of its steps, and the files that follow them.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "engine/engine_options.h"
#include "exec/model_plan.h"
#include "facade/engine_args.h"
#include "roofline/hardware/hardware.h"
#include "roofline/shape/model_shape.h"

namespace quire {

// The model as cost sees it, with the formats that its weights and cache really have here.
ModelShape cost_shape(const std::string& name, const ModelPlan& plan);

// What add_step_costs() would refuse, before a model is loaded: the hardware that is named
// (nullopt: none), files that cannot be written.
Result<std::optional<Hardware>> step_hardware(const EngineArgs& args);

// Sets cost_model and step_observers of `options` as `args` asks. A model that the cost model
// cannot describe goes without, with a warning in the log.
Status add_step_costs(const EngineArgs& args, const std::optional<Hardware>& hardware,
                      const std::string& name, const ModelPlan& plan, EngineOptions& options);

}  // namespace quire
