// An adapter that is divided into one part for each rank or stage.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/adapter.h"
#include "core/step.h"

namespace quire {

struct PartedAdapter final : Adapter {
  std::vector<std::shared_ptr<const Adapter>> parts;

  // kDataLoss: this part is from other files than the parts before. The error names `path`.
  Status add(std::shared_ptr<const Adapter> part, const std::string& path);
};

bool has_adapters(const StepPlan& plan);

// Returns a copy of the plan in which each adapter is replaced by its part `index`.
StepPlan with_parts(const StepPlan& plan, size_t index);

}  // namespace quire
