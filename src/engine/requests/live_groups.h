// LiveGroups holds the client requests in the engine, and finds their choices by the scheduler's
// ids.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "engine/choices/group.h"

namespace quire {

// Used by the engine thread only.
class LiveGroups {
 public:
  using Map = std::unordered_map<GroupId, std::unique_ptr<Group>>;

  void add(std::unique_ptr<Group> group);
  void erase(GroupId id) { groups_.erase(id); }
  Group* find(GroupId id) const;
  Map& all() { return groups_; }
  bool empty() const { return groups_.empty(); }

  // Choices that the scheduler computes, from when it gets them until they end.
  void add_computed(Choice& choice) { choices_[choice.request_id] = &choice; }
  void remove_computed(RequestId id) { choices_.erase(id); }
  Choice* find(RequestId id) const;

 private:
  Map groups_;
  std::unordered_map<RequestId, Choice*> choices_;
};

}  // namespace quire
