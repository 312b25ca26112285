// An adapter of which each rank, or each stage, has a part.
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

  // kDataLoss: this part is of other files than those before. The error names `path`.
  Status add(std::shared_ptr<const Adapter> part, const std::string& path);
};

bool has_adapters(const StepPlan& plan);

// Returns the plan with part `index` of its adapters.
StepPlan with_parts(const StepPlan& plan, size_t index);

}  // namespace quire
