// How much memory this process may still take.
#pragma once

#include <cstdint>
#include <string>

namespace quire {

// What nobody uses now, at most what the control groups and RLIMIT_AS of this process leave.
int64_t free_memory_bytes();

// Returns the least that is left of the memory limits of the control groups that `proc_self_cgroup`
// (the text of /proc/self/cgroup) names and of those above them, where page cache counts as free;
// -1 without a limit. Groups are mounted below `root`: version 2 at `root`, or version 1's memory
// controller at `root`/memory (cgroups(7)).
int64_t control_group_room(const std::string& proc_self_cgroup, const std::string& root);

}  // namespace quire
