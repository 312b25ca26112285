// The memory that this process may still allocate.
#pragma once

#include <cstdint>
#include <string>

namespace quire {

// Returns the machine's free memory, or less where the control groups or RLIMIT_AS of this process
// leave less.
int64_t free_memory_bytes();

// Returns the least room under the memory limits of the control groups that `proc_self_cgroup` (the
// text of /proc/self/cgroup) lists, and of their parents; -1 if none has a limit. Page cache counts
// as free. Groups are mounted below `root`: version 2 at `root`, or version 1's memory controller
// at `root`/memory (cgroups(7)).
int64_t control_group_room(const std::string& proc_self_cgroup, const std::string& root);

}  // namespace quire
