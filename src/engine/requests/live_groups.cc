#include "engine/requests/live_groups.h"

#include <utility>

namespace quire {

void LiveGroups::add(std::unique_ptr<Group> group) {
  const GroupId id = group->id;
  groups_[id] = std::move(group);
}

Group* LiveGroups::find(GroupId id) const {
  const auto it = groups_.find(id);
  return it == groups_.end() ? nullptr : it->second.get();
}

Choice* LiveGroups::find(RequestId id) const {
  const auto it = choices_.find(id);
  return it == choices_.end() ? nullptr : it->second;
}

}  // namespace quire
