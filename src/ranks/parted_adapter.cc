#include "ranks/parted_adapter.h"

#include <algorithm>
#include <utility>

namespace quire {

Status PartedAdapter::add(std::shared_ptr<const Adapter> part, const std::string& path) {
  if (!parts.empty() && part->content_key != content_key)
    return data_loss("{}: the adapter's files change while they are read", path);
  name = part->name;
  content_key = part->content_key;
  parts.push_back(std::move(part));
  return {};
}

bool has_adapters(const StepPlan& plan) {
  return std::any_of(plan.new_requests.begin(), plan.new_requests.end(),
                     [](const NewRequest& request) { return request.adapter != nullptr; });
}

StepPlan with_parts(const StepPlan& plan, size_t index) {
  StepPlan own = plan;
  for (NewRequest& request : own.new_requests) {
    if (request.adapter != nullptr)
      request.adapter = static_cast<const PartedAdapter&>(*request.adapter).parts[index];
  }
  return own;
}

}  // namespace quire
